//! The switches and links, and the time that a message needs to cross them.
//!
//! ```text
//!   NI ──port link── switch ──link── switch ──port link── NI
//! ```
//!
//! A message takes the path with the fewest links. Among equal paths a hash of its two ends decides, as in
//! equal-cost routing. Forwarding is cut-through: each link adds its latency, and the narrowest link adds its
//! transfer time for the bytes. Each link is occupied for its own transfer time, by one message after another in
//! the order of posting. This order is a simplification: a message that is posted earlier goes first on every link.
//!
//! A message is lost if a link of its path is down when it is posted, or goes down before it arrives.

use std::collections::VecDeque;
use std::rc::Rc;

use lnet_core::FaultTypes;
use rustc_hash::FxHashMap;

use crate::cores::plan::{Speed, World};
use crate::random::Random;

/// The limit on the factor by which a link is slowed. A slower link would be as good as down.
const SLOWEST: u32 = 1_000_000;

/// The limit on the time that a message is in flight: a day, in nanoseconds.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// One step of a path: a link and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    link: u32,
    back: bool,
}

/// A path from switch to switch.
type Path = Rc<[Hop]>;

/// The place where an interface is plugged in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plug {
    /// The interface's own link.
    pub(crate) link: u32,
    switch: u32,
}

#[derive(Debug)]
struct Link {
    speed: Speed,
    /// The factors by which active faults slow the link. The largest one counts.
    slows: Vec<u32>,
    downs: u32,
    /// The time at which it last went down.
    broke_at: Option<u64>,
    /// The time at which each direction is free again.
    free_at: [u64; 2],
    losses: Vec<(usize, FaultTypes, u32)>,
}

impl Link {
    fn new(speed: Speed) -> Self {
        Self {
            speed,
            slows: Vec::new(),
            downs: 0,
            broke_at: None,
            free_at: [0; 2],
            losses: Vec::new(),
        }
    }

    fn slower(&self) -> u64 {
        let worst = self.slows.iter().copied().max();
        worst.unwrap_or(1).clamp(1, SLOWEST).into()
    }
}

/// The state of all links.
#[derive(Debug)]
pub(crate) struct Fabric {
    links: Vec<Link>,
    /// For each switch, its links to other switches.
    neighbours: Vec<Vec<(u32, Hop)>>,
    paths: FxHashMap<(u32, u32), Option<Path>>,
    random: Random,
}

impl Fabric {
    /// Makes the links between switches, all of them up. Interfaces are plugged in afterwards.
    pub(crate) fn new(world: &World, seed: u64) -> Self {
        let mut neighbours = vec![Vec::new(); world.switches as usize];
        let mut join = |from: u32, to: u32, hop: Hop| {
            if let Some(known) = neighbours.get_mut(from as usize) {
                known.push((to, hop));
            }
        };
        for (index, link) in world.links.iter().enumerate() {
            let link_index = index as u32;
            join(
                link.a,
                link.b,
                Hop {
                    link: link_index,
                    back: false,
                },
            );
            join(
                link.b,
                link.a,
                Hop {
                    link: link_index,
                    back: true,
                },
            );
        }
        Self {
            links: world
                .links
                .iter()
                .map(|link| Link::new(link.speed))
                .collect(),
            neighbours,
            paths: FxHashMap::default(),
            random: Random::stream(seed, 1),
        }
    }

    /// Plugs an interface into a switch.
    pub(crate) fn plug(&mut self, switch: u32, speed: Speed) -> Plug {
        self.links.push(Link::new(speed));
        Plug {
            link: (self.links.len() - 1) as u32,
            switch,
        }
    }

    /// Returns true if no path connects the two interfaces, whatever the state of the links.
    pub(crate) fn is_apart(&mut self, from: Plug, to: Plug) -> bool {
        self.path(from.switch, to.switch).is_none()
    }

    /// Returns true if all links of the path are up, and none of them went down at or after `since`.
    pub(crate) fn is_up_since(&mut self, from: Plug, to: Plug, since: u64) -> bool {
        let fine = |link: &Link| link.downs == 0 && link.broke_at.is_none_or(|at| at < since);
        let ends = [from.link, to.link];
        if !ends
            .iter()
            .all(|&end| self.links.get(end as usize).is_some_and(fine))
        {
            return false;
        }
        let Some(path) = self.path(from.switch, to.switch) else {
            return false;
        };
        path.iter()
            .all(|hop| self.links.get(hop.link as usize).is_some_and(fine))
    }

    /// Returns the latency from end to end, without waiting for other messages.
    pub(crate) fn latency(&mut self, from: Plug, to: Plug) -> u64 {
        let own = self.latency_of(from.link) + self.latency_of(to.link);
        let path = self.path(from.switch, to.switch);
        path.map_or(own, |path| {
            own + path
                .iter()
                .map(|hop| self.latency_of(hop.link))
                .sum::<u64>()
        })
    }

    fn latency_of(&self, link: u32) -> u64 {
        let link = self.links.get(link as usize);
        link.map_or(0, |link| link.speed.latency_ns * link.slower())
    }

    /// Occupies the links for a message, and returns its time of arrival.
    pub(crate) fn carry(&mut self, from: Plug, to: Plug, bytes: u64, now: u64) -> u64 {
        let mut head = now;
        let mut longest = 0;
        let first = Hop {
            link: from.link,
            back: false,
        };
        self.occupy(first, bytes, &mut head, &mut longest);
        if from.switch != to.switch
            && let Some(path) = self.path(from.switch, to.switch)
        {
            for &hop in path.iter() {
                self.occupy(hop, bytes, &mut head, &mut longest);
            }
        }
        let last = Hop {
            link: to.link,
            back: true,
        };
        self.occupy(last, bytes, &mut head, &mut longest);
        // The sum saturates, so the time of arrival is valid for any speed of the links.
        head.saturating_add(longest)
            .min(now.saturating_add(LONGEST_NS))
    }

    fn occupy(&mut self, hop: Hop, bytes: u64, head: &mut u64, longest: &mut u64) {
        let Some(link) = self.links.get_mut(hop.link as usize) else {
            return;
        };
        let slower = link.slower();
        let picoseconds = bytes * link.speed.picoseconds_per_byte;
        let span = picoseconds.saturating_mul(slower) / 1000;
        let free_at = &mut link.free_at[usize::from(hop.back)];
        let begin = (*head).max(*free_at);
        *free_at = begin.saturating_add(span);
        *head = begin.saturating_add(link.speed.latency_ns * slower);
        *longest = (*longest).max(span);
    }

    /// Decides whether a lossy link loses the message.
    pub(crate) fn loses(&mut self, from: Plug, to: Plug, types: FaultTypes) -> bool {
        [from.link, to.link].into_iter().any(|end| {
            let Some(link) = self.links.get(end as usize) else {
                return false;
            };
            let mut losses = link.losses.iter();
            losses.any(|&(_, lost, rate)| {
                (lost.is_empty() || lost.intersects(types)) && self.random.one_in(rate.into())
            })
        })
    }

    pub(crate) fn begin_loss(&mut self, link: u32, fault: usize, types: FaultTypes, rate: u32) {
        if let Some(link) = self.links.get_mut(link as usize) {
            link.losses.push((fault, types, rate));
        }
    }

    pub(crate) fn end_loss(&mut self, link: u32, fault: usize) {
        if let Some(link) = self.links.get_mut(link as usize) {
            link.losses.retain(|(of, ..)| *of != fault);
        }
    }

    /// Adds a reason why a link is down; returns true if the link was up.
    pub(crate) fn begin_down(&mut self, link: u32, now: u64) -> bool {
        let Some(link) = self.links.get_mut(link as usize) else {
            return false;
        };
        link.downs += 1;
        link.broke_at = Some(now);
        link.downs == 1
    }

    /// Removes a reason why a link is down; returns true if the link is up again.
    pub(crate) fn end_down(&mut self, link: u32) -> bool {
        let Some(link) = self.links.get_mut(link as usize) else {
            return false;
        };
        link.downs = link.downs.saturating_sub(1);
        link.downs == 0
    }

    pub(crate) fn begin_slow(&mut self, link: u32, by: u32) {
        if let Some(link) = self.links.get_mut(link as usize) {
            link.slows.push(by);
        }
    }

    /// Ends a slowdown. From now on waiting messages take the time of the new speed.
    pub(crate) fn end_slow(&mut self, link: u32, by: u32, now: u64) {
        let Some(link) = self.links.get_mut(link as usize) else {
            return;
        };
        let before = link.slower();
        if let Some(at) = link.slows.iter().position(|slow| *slow == by) {
            link.slows.swap_remove(at);
        }
        let after = link.slower();
        for free_at in &mut link.free_at {
            *free_at = now + free_at.saturating_sub(now) / before * after;
        }
    }

    fn path(&mut self, from: u32, to: u32) -> Option<Path> {
        if let Some(known) = self.paths.get(&(from, to)) {
            return known.clone();
        }
        let found = self.search(from, to);
        self.paths.insert((from, to), found.clone());
        found
    }

    /// Searches breadth first from the far end, then follows falling distances.
    fn search(&self, from: u32, to: u32) -> Option<Path> {
        let mut distance = vec![u32::MAX; self.neighbours.len()];
        *distance.get_mut(to as usize)? = 0;
        let mut queue = VecDeque::from([to]);
        while let Some(at) = queue.pop_front() {
            let next = distance.get(at as usize)? + 1;
            for &(other, _) in self.neighbours.get(at as usize)? {
                if let Some(known) = distance.get_mut(other as usize).filter(|d| **d == u32::MAX) {
                    *known = next;
                    queue.push_back(other);
                }
            }
        }
        let mut left = *distance.get(from as usize)?;
        if left == u32::MAX {
            return None;
        }
        let mut random = Random::stream(u64::from(from) << 32 | u64::from(to), 2);
        let (mut at, mut hops) = (from, Vec::new());
        while left > 0 {
            let nearer = self.neighbours.get(at as usize)?.iter();
            let nearer = nearer.filter(|(other, _)| distance[*other as usize] < left);
            let choices: Vec<_> = nearer.collect();
            let &&(other, hop) = random.of(&choices)?;
            hops.push(hop);
            at = other;
            left -= 1;
        }
        Some(hops.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::plan::SwitchLink;

    const SPEED: Speed = Speed {
        latency_ns: 1000,
        picoseconds_per_byte: 1000,
    };

    /// Returns switches 0 ─ 1 ─ 2 in a line, and switch 3 alone.
    fn line() -> Fabric {
        let link = |a, b| SwitchLink { a, b, speed: SPEED };
        let world = World {
            switches: 4,
            links: vec![link(0, 1), link(1, 2)],
            ..World::default()
        };
        Fabric::new(&world, 1)
    }

    #[test]
    fn a_message_is_cut_through_and_the_next_one_waits_for_the_links() {
        let mut fabric = line();
        let (a, b) = (fabric.plug(0, SPEED), fabric.plug(2, SPEED));
        assert_eq!(fabric.latency(a, b), 4000);
        assert_eq!(fabric.carry(a, b, 500, 0), 4500);
        assert_eq!(fabric.carry(a, b, 500, 0), 5000);
        assert_eq!(fabric.carry(b, a, 500, 0), 4500, "the other way is free");
    }

    #[test]
    fn a_slow_link_takes_longer_until_it_is_over() {
        let mut fabric = line();
        let (a, b) = (fabric.plug(0, SPEED), fabric.plug(0, SPEED));
        fabric.begin_slow(a.link, 3);
        assert_eq!(fabric.carry(a, b, 1000, 0), 7000);
        fabric.end_slow(a.link, 3, 1000);
        assert_eq!(fabric.latency(a, b), 2000);
        let c = fabric.plug(0, SPEED);
        let waits = "for what is left of the first one, at full speed";
        assert_eq!(fabric.carry(a, c, 1000, 1000), 4666, "{waits}");
    }

    #[test]
    fn a_link_that_was_down_meanwhile_is_not_up_since() {
        let mut fabric = line();
        let (a, b) = (fabric.plug(0, SPEED), fabric.plug(2, SPEED));
        assert!(fabric.is_up_since(a, b, 0));
        assert!(fabric.begin_down(1, 50));
        assert!(!fabric.begin_down(1, 60), "twice");
        assert!(!fabric.end_down(1));
        assert!(fabric.end_down(1));
        assert!(!fabric.is_up_since(a, b, 55));
        assert!(fabric.is_up_since(a, b, 61));
    }

    #[test]
    fn switches_without_a_path_are_apart() {
        let mut fabric = line();
        let (a, b) = (fabric.plug(0, SPEED), fabric.plug(3, SPEED));
        assert!(fabric.is_apart(a, b));
        assert!(!fabric.is_up_since(a, b, 0));
        assert!(!fabric.is_apart(a, a));
    }
}
