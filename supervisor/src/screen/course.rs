//! Counts of progress → which stages of a job are at work, and which are over: each is once.
//!
//! A role's stages follow each other, so the next one ends those before it; a count of a stage that is over changes nothing.
//! Of two that run side by side, each ends with its last count.

use std::collections::{HashMap, HashSet};

use proto::message::{Phase, Role};

use crate::process::watch::PhaseState;

/// A stage that is over, with its last count.
pub(super) type Over = (Phase, PhaseState);

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Course {
    open: HashMap<(Role, Phase), PhaseState>,
    over: HashSet<(Role, Phase)>,
}

impl Course {
    /// A count came. Gives the stages that it ends, in their order; its own is the last of them, if it is over.
    pub(super) fn count(&mut self, role: Role, phase: Phase, state: PhaseState) -> Vec<Over> {
        if self.over.contains(&(role, phase)) {
            return Vec::new();
        }
        let before = |open: Phase| open < phase && !open.is_beside(phase);
        let mut over = self.end(role, before);
        self.open.insert((role, phase), state);
        let beside = Phase::ALL.iter().any(|other| other.is_beside(phase));
        if beside && state.total > 0 && state.done >= state.total {
            over.extend(self.end(role, |open| open == phase));
        }
        over
    }

    /// Whether a stage is at work.
    pub(super) fn is_open(&self, role: Role, phase: Phase) -> bool {
        self.open.contains_key(&(role, phase))
    }

    /// A role is done, and with it its stages.
    pub(super) fn done(&mut self, role: Role) -> Vec<Over> {
        self.end(role, |_| true)
    }

    /// A role starts over.
    pub(super) fn again(&mut self, role: Role) {
        self.open.retain(|(open, _), _| *open != role);
        self.over.retain(|(over, _)| *over != role);
    }

    fn end(&mut self, role: Role, ends: impl Fn(Phase) -> bool) -> Vec<Over> {
        let ended = |(of, phase): &(Role, Phase), _: &mut PhaseState| *of == role && ends(*phase);
        let ended = self.open.extract_if(ended);
        let mut over: Vec<Over> = ended.map(|((_, phase), state)| (phase, state)).collect();
        over.sort_unstable_by_key(|(phase, _)| *phase);
        self.over
            .extend(over.iter().map(|(phase, _)| (role, *phase)));
        over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The stages that a count of prepare ends.
    fn count(course: &mut Course, phase: Phase, done: u64, total: u64) -> Vec<Phase> {
        let since = Instant::now();
        let state = PhaseState { since, done, total };
        let over = course.count(Role::Prepare, phase, state);
        over.into_iter().map(|(phase, _)| phase).collect()
    }

    #[test]
    fn a_stage_ends_those_before_it_and_two_side_by_side_end_by_themselves() {
        let mut course = Course::default();
        assert_eq!(count(&mut course, Phase::LoadMesh, 7, 7), []);
        assert_eq!(count(&mut course, Phase::Clean, 0, 0), [Phase::LoadMesh]);
        assert_eq!(count(&mut course, Phase::DecodeViews, 1, 2), []);
        assert_eq!(count(&mut course, Phase::Unwrap, 3, 9), [Phase::Clean]);
        assert_eq!(
            count(&mut course, Phase::DecodeViews, 2, 2),
            [Phase::DecodeViews]
        );
        assert_eq!(count(&mut course, Phase::Clean, 1, 1), [], "it is over");
        assert!(!course.is_open(Role::Prepare, Phase::Clean));
        assert!(course.is_open(Role::Prepare, Phase::Unwrap));
        assert_eq!(count(&mut course, Phase::Unwrap, 9, 9), [Phase::Unwrap]);
        course.again(Role::Prepare);
        assert_eq!(count(&mut course, Phase::Clean, 0, 0), []);
        assert!(course.is_open(Role::Prepare, Phase::Clean));
    }
}
