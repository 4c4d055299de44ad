//! Giving a recorded input to a core again.

use lnet_types::Time;

use super::{Answer, Input, Told};
use crate::Core;
use crate::io::CoreBuffer;

impl Core {
    /// Makes the call that was recorded, and returns what the call returned then if this core is in the state that the
    /// recorded one was in. `latest` is the latest time that the recorded core had seen before.
    #[expect(clippy::too_many_lines, reason = "one line an input")]
    pub fn apply(&mut self, input: Input, latest: Time) -> Answer {
        self.latest = self.latest.max(latest);
        match input {
            Input::AddNi { config, now } => return self.add_ni(config, now).told(),
            Input::RemoveNi { ni, now } => return self.remove_ni(ni, now).told(),
            Input::SetNiFatal { ni, fatal, now } => self.set_ni_fatal(ni, fatal, now),
            Input::SetNiDevice { ni, device } => return self.set_ni_device(ni, device).told(),
            Input::SetNiLndTimeout { ni, timeout } => {
                return self.set_ni_lnd_timeout(ni, timeout).told();
            }
            Input::AddRoute { route, now } => return self.add_route(route, now).told(),
            Input::RemoveRoute { net, gateway } => return self.remove_route(net, gateway).told(),
            Input::AddPeer {
                primary,
                nids,
                multi_rail,
            } => return self.add_peer(primary, &nids, multi_rail).told(),
            Input::SetPeerState { nid, state } => return self.set_peer_state(nid, state).told(),
            Input::RemovePeer { primary } => return self.remove_peer(primary).told(),
            Input::ChangeGlobals { globals, now } => {
                return self.change_globals(globals, now).told();
            }
            Input::SetGlobals { globals, now } => self.set_globals(globals, now),
            Input::ResetStats => self.reset_stats(),
            Input::Discover { nid, now } => return self.discover(nid, now).told(),
            Input::AddDropRule { rule } => return self.add_drop_rule(rule).told(),
            Input::AddDelayRule { rule } => return self.add_delay_rule(rule).told(),
            Input::DeleteDropRules {
                source,
                destination,
            } => return self.delete_drop_rules(source, destination).told(),
            Input::DeleteDelayRules {
                source,
                destination,
            } => return self.delete_delay_rules(source, destination).told(),
            Input::ResetFaultRules => self.reset_fault_rules(),
            Input::SetNiHealth { ni, health, now } => {
                return self.set_ni_health(ni, health, now).told();
            }
            Input::SetPeerNiHealth { nid, health, now } => {
                return self.set_peer_ni_health(nid, health, now).told();
            }
            Input::SetAllPeerHealth { health, now } => self.set_all_peer_health(health, now),
            Input::PeerNotify {
                ni,
                peer,
                alive,
                now,
            } => self.peer_notify(ni, peer, alive, now),
            Input::PeerIncarnation {
                peer,
                incarnation,
                now,
            } => self.peer_incarnation(peer, incarnation, now),
            Input::AddRule { rule, before } => return self.add_rule(*rule, before).told(),
            Input::DeleteRule { index } => return self.delete_rule(index).told(),
            Input::ClearRules => self.clear_rules(),
            Input::SetRules { rules } => self.set_rules(rules),
            Input::HoldRules => self.hold_rules(),
            Input::ReleaseRules => self.release_rules(),
            Input::ReleaseRulesInSteps => self.release_rules_in_steps(),
            Input::ApplyRulesStep { count } => return self.apply_rules_step(count).told(),
            Input::MeAttach { me } => return self.me_attach(me).told(),
            Input::MdAttach { me, md, now } => return self.md_attach(me, md, now).told(),
            Input::MdBind { md } => return self.md_bind(md).told(),
            Input::MdUnlink { md, now } => return self.md_unlink(md, now).told(),
            Input::MdCancel { md, now } => return self.md_cancel(md, now).told(),
            Input::MeUnlink { me, now } => return self.me_unlink(me, now).told(),
            Input::SetLazy { portal } => return self.set_lazy(portal).told(),
            Input::ClearLazy { portal, now } => return self.clear_lazy(portal, now).told(),
            Input::Put { put, hints, now } => return self.hinted_put(put, hints, now).told(),
            Input::Get { get, hints, now } => return self.hinted_get(get, hints, now).told(),
            Input::Header {
                ni,
                from,
                header,
                now,
            } => return self.header(ni, from, &header, now).told(),
            Input::Arrived { rx, result, now } => self.arrived(rx, result, now),
            Input::SetRouterBuffers { buffers, now } => self.set_router_buffers(buffers, now),
            Input::StartRouting { now } => self.start_routing(now),
            Input::StopRouting { now } => self.stop_routing(now),
            Input::SetRouting { enabled, now } => self.set_routing(enabled, now),
            Input::Sent { tx, status, now } => self.sent(tx, status, now),
            Input::SentTryNext {
                tx,
                status,
                next,
                now,
            } => self.sent_try_next(tx, status, next, now),
            Input::SentInNoForm { tx, now } => self.sent_in_no_form(tx, now),
            Input::Tick { now } => self.tick(now),
            Input::Fill { buffer, bytes } => self.fill(buffer, &bytes),
        }
        Answer::Nothing
    }

    /// Bytes that this buffer has no room for say that the record is of another core: they are left out.
    fn fill(&mut self, buffer: CoreBuffer, bytes: &[u8]) {
        for (to, from) in self.core_buffer_mut(buffer).iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}
