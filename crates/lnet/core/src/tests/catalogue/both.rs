//! Runs the cases that hold in all profiles once more in those of kernels. The nodes of a test are in the profile of
//! its thread, unless the test sets another one.

use lnet_policy::Profile;

use super::super::net;

macro_rules! in_lustre {
    ($($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            $(
                #[test]
                fn $case() {
                    for profile in [super::Profile::Lustre, super::Profile::Lustre217] {
                        super::net::in_profile(profile, super::super::$module::$case);
                    }
                }
            )*
        })*
    };
}

in_lustre! {
    selection {
        t_s01_equal_interfaces_take_turns
        t_s02_more_credits_win
        t_s03_distance_comes_before_credits
        t_s04_distances_within_numa_range_are_equal
        t_s05_health_comes_before_distance_and_credits
        t_s06_an_interface_without_fatal_error_comes_before_health
        t_s07_if_all_are_fatal_the_healthier_one_sends
        t_s08_a_rule_comes_before_distance
        t_s09_health_of_a_peer_ni_comes_before_rules
        t_s10_the_lower_number_is_the_better_priority_of_a_peer_ni
        t_s11_a_pair_comes_before_credits
        t_s12_a_pair_does_nothing_for_another_local_interface
        t_s13_two_common_nets_take_turns
        t_s14_health_of_a_peer_net_comes_before_rules
        t_s15_health_of_a_local_net_comes_before_its_rule
        t_s16_the_rule_of_a_peer_net_comes_before_health_of_the_local_net
        t_s19_a_source_that_is_not_ours_fails
        t_s33_without_discovery_nothing_waits_and_unknown_peers_are_single_rail
        t_s34_a_single_rail_peer_always_sees_the_same_interface
        t_s34_a_ping_pins_the_source_of_a_single_rail_peer_too
        t_s35_a_peer_that_turns_out_multi_rail_sees_all_interfaces
        t_s36_loopback_delivers_without_credits_from_0_lo
        t_s37_a_node_without_or_with_one_interface_pings_itself_and_keeps_nothing
        t_s38_the_exact_own_nid_is_nearer_than_its_net
        t_s39_a_ping_from_a_given_source_uses_that_interface_only
        t_s40_a_message_without_credit_at_its_deadline_is_dropped_once
        t_s41_a_ping_to_a_peer_that_is_down_fails_in_time
        t_s42_a_tie_everywhere_goes_to_the_first_net_of_the_peer
        t_s43_a_change_of_the_configuration_between_attempts_leaves_a_valid_path
    }
    resend {
    }
    health {
        t_h01_everything_begins_in_full_health_and_up
        t_h04_an_unspecified_local_failure_costs_health_and_is_not_sent_again
        t_h05_the_only_interface_of_a_peer_is_not_blamed
        t_h07_what_the_peer_may_have_got_is_not_sent_again
        t_h09_a_network_timeout_blames_both_sides
        t_h10_a_resend_that_succeeds_is_counted
        t_h11_a_failed_ping_of_ourselves_is_no_evidence_against_a_peer
        t_h18_health_set_by_hand_sets_the_status
        t_h20_a_link_that_goes_down_takes_its_interface_down_and_no_other
        t_h23_health_of_peers_is_set_by_nid_and_for_all
        t_h25_without_sensitivity_nothing_changes_and_nothing_recovers
        t_h26_without_retries_nothing_is_sent_again_and_none_has_failed
        t_h27_resends_without_health_are_refused
        t_h28_a_transaction_shorter_than_its_retries_is_refused
        t_h29_the_lnd_timeout_follows_from_timeout_and_retries
        t_h30_more_sensitivity_than_full_health_is_refused
        t_h31_a_swallowed_ack_or_reply_is_a_timeout_and_costs_the_next_hop
        t_h32_response_tracking_decides_what_is_waited_for
        t_h33_a_descriptor_unlinked_while_its_message_waits_cancels_the_resend
        t_h33_a_descriptor_unlinked_while_the_lnd_has_its_message_is_not_sent_again
        t_h34_a_message_that_fails_twice_and_then_works_has_one_send_event
        t_h35_a_failure_after_the_deadline_says_nothing
        t_h36_health_does_not_fall_below_zero
        t_h37_health_does_not_rise_above_full
        t_h38_a_peer_never_heard_of_loses_health_and_is_not_pinged
        t_h40_a_message_from_a_gateway_restores_it_at_once
        t_h41_each_class_is_counted_as_itself
        t_h45_ten_pings_of_ourselves_have_a_round_trip_time_until_the_reset
        t_h42_an_interface_has_the_nodes_lnd_timeout_unless_it_has_its_own
        t_h35_a_failure_after_the_deadline_is_counted_as_late_and_under_no_class
    }
    recovery {
        t_h12_pings_of_an_ill_interface_double_their_pauses_and_go_on
        t_h13_pauses_grow_to_the_longest_one
        t_h14_a_silent_peer_is_given_up_after_the_limit
        t_h15_a_peer_that_answers_is_well_after_one_answer_a_step
        t_h16_pings_of_a_silent_peer_reach_the_longest_pause
        t_h17_an_ill_interface_is_pinged_from_a_healthy_one
        t_h19_a_recovery_ping_that_fails_here_takes_the_interface_down
        t_h39_a_peer_that_was_given_up_recovers_when_it_speaks
        a_failure_is_followed_by_a_ping_after_a_second
        one_ping_at_a_time_and_the_next_when_it_is_over
        an_interface_of_ours_gains_from_every_message_of_its_ping
        without_sensitivity_recovery_ends_and_with_it_goes_on
        a_recovery_that_ended_leaves_no_pause_to_the_next_one
    }
    policy {
        t_u01_there_are_no_rules_at_first
        t_u02_a_rule_for_a_bare_net_name_is_added_and_deleted
        t_u03_a_net_rule_gives_a_later_peers_net_its_priority
        t_u04_a_peer_on_a_net_of_numbers_is_added_under_a_net_rule
        t_u09_a_nid_rule_takes_all_fresh_traffic
        t_u10_without_the_rule_interfaces_take_turns_again
        t_u11_interfaces_of_the_same_priority_take_turns_among_themselves
        t_u12_the_only_one_left_of_a_priority_takes_all
        t_u13_the_net_is_decided_before_the_interface
        t_u14_each_rule_alone_does_its_part
        t_u15_a_remote_nid_rule_takes_all_until_it_goes
        t_u16_a_rule_for_what_is_not_there_holds_when_it_appears
        t_u17_a_rule_that_is_not_there_cannot_be_deleted
        t_u18_a_preferred_interface_that_fails_is_left_until_it_is_well
        t_u19_a_preferred_net_that_is_down_is_left
        t_u20_a_preferred_router_is_used_while_it_lives
        t_u21_a_preferred_router_is_used_over_its_other_interface
        t_u22_a_pair_steers_only_what_its_source_sends
        t_u23_a_pair_of_several_sources_leaves_no_list_behind
        t_u24_a_pair_works_with_one_interface
        t_u25_the_same_rule_again_is_refused
        t_u26_a_new_priority_is_put_in_place
        t_u27_a_rule_is_inserted_before_the_one_at_its_index
        t_u28_an_index_beyond_the_end_appends
        t_u29_of_overlapping_rules_the_lowest_index_counts
        t_u30_a_rule_that_goes_uncovers_the_one_it_hid
        t_u31_a_new_interface_joins_the_pairs_that_match_it
        t_u32_a_router_rule_holds_for_a_peer_that_appears_later
        t_u33_a_route_added_later_is_preferred
        t_u34_a_net_rule_holds_for_a_net_that_is_added_later
        a_rule_holds_for_an_interface_that_a_peer_gets_later
        a_rule_holds_for_a_net_that_a_peer_gets_later
        a_rule_holds_for_the_net_of_a_peer_that_becomes_a_gateway
        t_u39_without_rules_everything_is_without_priority
        t_u45_the_interface_on_the_optimal_link_is_used_while_it_is_well
        t_u49_a_recovery_ping_goes_to_the_interface_that_is_ill
        t_u50_a_nid_rule_decides_within_its_net_only
        t_u51_a_net_rule_decides_before_a_nid_rule
        t_u53_a_router_rule_sends_all_over_its_gateway
        a_router_rule_holds_for_the_first_message_to_a_stranger
        a_pair_rule_holds_for_the_first_message_to_a_stranger
    }
    routing {
        t_r01_with_discovery_and_routes_on_both_sides_everything_is_up_and_carries_bulk
        t_r02_with_routes_on_both_sides_everything_is_up_and_carries_bulk
        t_r03_a_router_that_nobody_pings_is_down_on_both_sides
        t_r04_with_a_route_of_the_host_only_its_side_is_up_and_the_route_is_down
        t_r05_with_the_route_of_the_peer_everything_is_up
        t_r06_without_the_host_its_side_is_down_and_so_is_the_route_of_the_peer
        t_r07_a_router_without_traffic_is_down_and_a_route_with_one_dead_end_is_too
        t_r08_without_the_asymmetry_rule_a_route_needs_its_near_side_only
        t_r09_a_peer_that_lacks_a_route_via_one_router_breaks_nothing
        t_r10_a_router_counts_what_it_drops_for_a_peer_that_is_gone
        t_r11_gateways_in_half_health_carry_all_the_same
        t_r12_the_last_hop_of_a_multi_rail_source_avoids_an_interface_that_is_ill
        t_r13_the_last_hop_of_another_source_keeps_the_interface_it_chose
        t_r15_routing_that_goes_off_and_on_under_load_drops_nothing
        t_r14_a_router_keeps_what_waits_for_credits_past_every_deadline
        t_r16_a_rail_that_fails_here_does_not_take_the_route_down
        t_r17_routes_are_listed_as_they_were_added_and_gone_when_deleted
        t_r19_one_gateway_has_499_routes
        t_r21_a_gateway_on_a_net_that_is_not_ours_is_refused
        t_r22_the_better_priority_is_used_while_it_lives
        t_r23_fewer_hops_are_better_and_none_count_as_one
        t_r24_equal_routes_take_turns
        t_r25_of_equal_routes_the_healthier_gateway_is_used
        t_r26_a_reply_goes_back_over_the_router_its_request_came_by
        t_r27_what_comes_through_a_router_that_is_not_ours_is_dropped
        t_r28_a_message_through_a_dead_gateway_revives_it_at_once
        t_r29_a_net_that_routes_lead_to_cannot_become_local
        t_r30_routes_that_make_no_sense_are_refused
        t_r30_a_second_route_over_another_interface_of_the_same_gateway_is_refused
        the_ping_of_a_gateway_is_sent_again_from_another_interface
        t_r28_the_interfaces_of_a_dead_gateway_are_down_and_those_towards_the_source_up_again
        a_route_over_a_known_gateway_is_probed_at_once
    }
}
