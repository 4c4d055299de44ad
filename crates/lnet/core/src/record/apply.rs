//! Applies recorded inputs to a core.

use lnet_types::Time;

use super::{Answer, Input, ToAnswer};
use crate::Core;
use crate::io::CoreBuffer;

impl Core {
    /// Makes the recorded call, and returns its answer. The answer equals the recorded one if this core is in the
    /// state of the recorded core. `latest` is the latest time that the recorded core had seen before the call.
    #[expect(clippy::too_many_lines, reason = "one line an input")]
    pub fn apply(&mut self, input: Input, latest: Time) -> Answer {
        self.latest = self.latest.max(latest);
        match input {
            Input::AddNi { config, now } => return self.add_ni(config, now).to_answer(),
            Input::RemoveNi { ni, now } => return self.remove_ni(ni, now).to_answer(),
            Input::SetNiFatal { ni, fatal, now } => self.set_ni_fatal(ni, fatal, now),
            Input::SetNiDevice { ni, device } => return self.set_ni_device(ni, device).to_answer(),
            Input::SetNiLndTimeout { ni, timeout } => {
                return self.set_ni_lnd_timeout(ni, timeout).to_answer();
            }
            Input::AddRoute { route, now } => return self.add_route(route, now).to_answer(),
            Input::RemoveRoute { net, gateway } => {
                return self.remove_route(net, gateway).to_answer();
            }
            Input::AddPeer {
                primary,
                nids,
                multi_rail,
            } => return self.add_peer(primary, &nids, multi_rail).to_answer(),
            Input::SetPeerState { nid, state } => {
                return self.set_peer_state(nid, state).to_answer();
            }
            Input::RemovePeer { primary } => return self.remove_peer(primary).to_answer(),
            Input::ChangeGlobals { globals, now } => {
                return self.change_globals(globals, now).to_answer();
            }
            Input::SetGlobals { globals, now } => self.set_globals(globals, now),
            Input::ResetStats => self.reset_stats(),
            Input::Discover { nid, now } => return self.discover(nid, now).to_answer(),
            Input::AddDropRule { rule } => return self.add_drop_rule(rule).to_answer(),
            Input::AddDelayRule { rule } => return self.add_delay_rule(rule).to_answer(),
            Input::DeleteDropRules {
                source,
                destination,
            } => return self.delete_drop_rules(source, destination).to_answer(),
            Input::DeleteDelayRules {
                source,
                destination,
            } => return self.delete_delay_rules(source, destination).to_answer(),
            Input::ResetFaultRules => self.reset_fault_rules(),
            Input::SetNiHealth { ni, health, now } => {
                return self.set_ni_health(ni, health, now).to_answer();
            }
            Input::SetPeerNiHealth { nid, health, now } => {
                return self.set_peer_ni_health(nid, health, now).to_answer();
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
            Input::AddRule { rule, before } => return self.add_rule(*rule, before).to_answer(),
            Input::DeleteRule { index } => return self.delete_rule(index).to_answer(),
            Input::ClearRules => self.clear_rules(),
            Input::SetRules { rules } => self.set_rules(rules),
            Input::HoldRules => self.hold_rules(),
            Input::ReleaseRules => self.release_rules(),
            Input::ReleaseRulesInSteps => self.release_rules_in_steps(),
            Input::ApplyRulesStep { count } => return self.apply_rules_step(count).to_answer(),
            Input::MeAttach { me } => return self.me_attach(me).to_answer(),
            Input::MdAttach { me, md, now } => return self.md_attach(me, md, now).to_answer(),
            Input::MdBind { md } => return self.md_bind(md).to_answer(),
            Input::MdUnlink { md, now } => return self.md_unlink(md, now).to_answer(),
            Input::MdCancel { md, now } => return self.md_cancel(md, now).to_answer(),
            Input::MeUnlink { me, now } => return self.me_unlink(me, now).to_answer(),
            Input::SetLazy { portal } => return self.set_lazy(portal).to_answer(),
            Input::ClearLazy { portal, now } => return self.clear_lazy(portal, now).to_answer(),
            Input::Put { put, hints, now } => return self.hinted_put(put, hints, now).to_answer(),
            Input::Get { get, hints, now } => return self.hinted_get(get, hints, now).to_answer(),
            Input::Header {
                ni,
                from,
                header,
                now,
            } => return self.header(ni, from, &header, now).to_answer(),
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

    /// Copies recorded bytes into a buffer. Bytes beyond the end of the buffer are left out; they show that the record
    /// is from another core.
    fn fill(&mut self, buffer: CoreBuffer, bytes: &[u8]) {
        for (to, from) in self.core_buffer_mut(buffer).iter_mut().zip(bytes) {
            *to = *from;
        }
    }
}
