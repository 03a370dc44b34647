//! Decides which of several equal adapters the next bake takes, and whether it may have its data. Pure.
//!
//! A bake is given an index by which it chooses among adapters that would do equally well. Once it has opened one, it
//! reports which. Until then the number of adapters is unknown, and each start gets an index of its own.

use std::collections::{BTreeMap, HashMap};

use proto::job::Device;
use proto::message::AdapterInfo;

use crate::host::gate::incident::JobName;
use crate::host::ladder::Rung;

/// More adapters than one machine has.
const MOST: u32 = 64;

/// Device and avoided adapters: jobs with equal wishes see the same adapters.
type Wish = (Device, Vec<String>);

/// All running bakes and known adapters; see the head of this file.
#[derive(Debug)]
pub struct Fleet {
    /// How many bakes may have data at once on each adapter.
    slots: usize,
    /// The adapters that a wish chooses from, by index; `None` until a bake has opened one.
    peers: HashMap<Wish, Vec<Option<String>>>,
    lanes: HashMap<JobName, Lane>,
    /// By name.
    seen: BTreeMap<String, AdapterInfo>,
}

/// The bake of one job.
#[derive(Debug)]
struct Lane {
    wish: Wish,
    nth: u32,
    adapter: Option<String>,
    /// It has its data.
    baking: bool,
}

impl Fleet {
    /// No bake is running. `slots` bakes may have data at once on each adapter.
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            peers: HashMap::new(),
            lanes: HashMap::new(),
            seen: BTreeMap::new(),
        }
    }

    /// A job's bake is about to start: returns the index of the adapter with the fewest bakes.
    pub fn enter(&mut self, job: &JobName, rung: &Rung) -> u32 {
        let wish = (rung.device.clone(), rung.avoid.clone());
        self.lanes.remove(job);
        let nth = self.least(&wish);
        let lane = Lane {
            wish,
            nth,
            adapter: None,
            baking: false,
        };
        self.lanes.insert(job.clone(), lane);
        nth
    }

    fn least(&self, wish: &Wish) -> u32 {
        let unknown = vec![None; self.lanes.len() + 1];
        let peers = self.peers.get(wish).unwrap_or(&unknown);
        let load = |index: usize| {
            let here = |lane: &&Lane| match (&lane.adapter, &peers[index]) {
                (Some(adapter), Some(name)) => adapter == name,
                _ => lane.wish == *wish && lane.nth as usize % peers.len() == index,
            };
            self.lanes.values().filter(here).count()
        };
        let least = (0..peers.len()).min_by_key(|&index| load(index));
        least.map_or(0, |index| index as u32)
    }

    /// A job's bake has opened this adapter, one of `peers` that would do as well.
    pub fn opened(&mut self, job: &JobName, adapter: &AdapterInfo, peers: u32) {
        let Some(lane) = self.lanes.get_mut(job) else {
            return;
        };
        if self.seen.len() < MOST as usize {
            self.seen.insert(adapter.name.clone(), adapter.clone());
        }
        lane.adapter = Some(adapter.name.clone());
        let count = peers.clamp(1, MOST) as usize;
        let known = self.peers.entry(lane.wish.clone()).or_default();
        if known.len() != count {
            *known = vec![None; count];
        }
        known[lane.nth as usize % count] = Some(adapter.name.clone());
    }

    /// Takes a slot on the adapter of a job's bake, if one is free or the bake holds it already.
    #[must_use]
    pub fn slot(&mut self, job: &JobName) -> bool {
        let Some(lane) = self.lanes.get(job) else {
            return false;
        };
        let others = self.lanes.values();
        let baking = others.filter(|other| other.baking && other.adapter == lane.adapter);
        let free = lane.baking || baking.count() < self.slots;
        if let Some(lane) = self.lanes.get_mut(job) {
            lane.baking = free;
        }
        free
    }

    /// A job's bake is over.
    pub fn leave(&mut self, job: &JobName) {
        self.lanes.remove(job);
    }

    /// The largest number of adapters that a job was seen to choose from; 1 before any was.
    pub fn adapters(&self) -> usize {
        self.peers.values().map(Vec::len).max().unwrap_or(1)
    }

    /// Every adapter that a bake has opened.
    pub fn seen(&self) -> Vec<AdapterInfo> {
        self.seen.values().cloned().collect()
    }

    /// Every index that leads jobs on this rung to a different adapter.
    pub fn indices(&self, rung: &Rung) -> std::ops::Range<u32> {
        let wish = (rung.device.clone(), rung.avoid.clone());
        0..self.peers.get(&wish).map_or(1, Vec::len) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u32) -> JobName {
        number.to_string().into()
    }

    fn adapter(name: &str) -> AdapterInfo {
        AdapterInfo {
            name: name.to_owned(),
            backend: "vulkan".to_owned(),
            kind: "discrete".to_owned(),
            driver: String::new(),
        }
    }

    fn gpu() -> Rung {
        Rung {
            device: Device::Gpu,
            ..Rung::default()
        }
    }

    #[test]
    fn each_start_takes_the_adapter_with_the_fewest_bakes() {
        let mut fleet = Fleet::new(1);
        // The number of adapters is unknown.
        let nths: Vec<u32> = (0..4).map(|k| fleet.enter(&job(k), &gpu())).collect();
        assert_eq!(nths, [0, 1, 2, 3]);
        assert_eq!(fleet.adapters(), 1);
        for k in 0..4 {
            fleet.opened(&job(k), &adapter(["A", "B"][k as usize % 2]), 2);
        }
        assert_eq!((fleet.adapters(), fleet.indices(&gpu())), (2, 0..2));
        assert_eq!(fleet.seen(), ["A", "B"].map(adapter));
        fleet.leave(&job(0));
        assert_eq!(fleet.enter(&job(4), &gpu()), 0, "A has one, B two");
        fleet.leave(&job(1));
        fleet.leave(&job(3));
        assert_eq!(
            fleet.enter(&job(5), &gpu()),
            1,
            "one that is not open yet counts"
        );
        // A job that avoids A sees only B.
        let mut rung = gpu();
        rung.avoid.push("A".to_owned());
        assert_eq!(fleet.enter(&job(6), &rung), 0);
        fleet.opened(&job(6), &adapter("B"), 1);
        assert_eq!(fleet.enter(&job(7), &rung), 0);
        // A repeated start is not a second bake of the job.
        fleet.opened(&job(5), &adapter("B"), 2);
        assert_eq!(fleet.enter(&job(5), &gpu()), 1, "A has 2 and 4, B has 6");
    }

    #[test]
    fn each_adapter_has_slots_of_its_own() {
        let mut fleet = Fleet::new(1);
        for k in 0..3 {
            fleet.enter(&job(k), &gpu());
            fleet.opened(&job(k), &adapter(["A", "B", "A"][k as usize]), 2);
        }
        assert!(fleet.slot(&job(0)) && fleet.slot(&job(1)));
        assert!(!fleet.slot(&job(2)), "A bakes for another");
        assert!(fleet.slot(&job(0)), "it has it");
        fleet.leave(&job(0));
        assert!(fleet.slot(&job(2)));
        assert!(!fleet.slot(&job(9)), "it has no bake");
    }

    #[test]
    fn a_count_that_cannot_be_is_bounded() {
        let mut fleet = Fleet::new(1);
        fleet.enter(&job(0), &gpu());
        fleet.opened(&job(0), &adapter("A"), 0);
        assert_eq!(fleet.adapters(), 1);
        fleet.opened(&job(0), &adapter("A"), u32::MAX);
        assert_eq!(fleet.adapters(), MOST as usize);
    }
}
