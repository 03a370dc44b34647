//! Minimum cut of a graph with sources and sinks, in a bounded number of steps.
//!
//! Capacities are integers, so the cut is the same on every machine. It is the set of nodes that the sources still
//! reach when the flow is maximal, the smallest source side of all minimum cuts.
//!
//! Two trees grow, one from all sources and one from all sinks. Where they meet, flow is sent, and nodes that lose their
//! parent by that look for another one (Boykov and Kolmogorov, "An Experimental Comparison of Min-Cut/Max-Flow
//! Algorithms for Energy Minimization in Vision", 2004). Trees are kept from one path to the next, which suits graphs
//! that are as flat as surfaces.

use std::collections::VecDeque;

/// An arc. Its reverse is the neighbour in the list (index xor 1).
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    capacity: u64,
}

/// The graph.
#[derive(Debug)]
pub struct Graph {
    arcs: Vec<Arc>,
    /// Capacity of each node from the source, and to the sink.
    ends: Vec<[u64; 2]>,
}

impl Graph {
    /// A graph of `nodes` nodes besides source and sink.
    pub fn new(nodes: usize) -> Self {
        Self {
            arcs: Vec::new(),
            ends: vec![[0; 2]; nodes],
        }
    }

    /// Adds an edge with this capacity in both directions.
    pub fn link(&mut self, a: u32, b: u32, capacity: u64) {
        self.arcs.extend([b, a].map(|to| Arc { to, capacity }));
    }

    /// Adds an arc from the source.
    pub fn feed(&mut self, node: u32, capacity: u64) {
        self.ends[node as usize][0] += capacity;
    }

    /// Adds an arc to the sink.
    pub fn drain(&mut self, node: u32, capacity: u64) {
        self.ends[node as usize][1] += capacity;
    }

    /// Returns the nodes on the source's side of the minimum cut; none where that would visit more than `steps` arcs.
    /// Calls `tell` now and then.
    pub fn cut(self, mut steps: u64, tell: impl FnMut()) -> Option<Vec<bool>> {
        self.cut_within(&mut steps, tell)
    }

    /// The same, and takes the arcs that it visits from `steps`.
    pub(crate) fn cut_within(self, steps: &mut u64, mut tell: impl FnMut()) -> Option<Vec<bool>> {
        let mut trees = Trees::new(self, *steps);
        let done = trees.grow(&mut tell);
        *steps = trees.steps;
        done?;
        let nodes = trees.nodes.iter();
        Some(nodes.map(|node| node.tree == Tree::Source).collect())
    }

    /// Arcs sorted by the node that they leave: offsets, and arc indices.
    fn leaving(&self) -> (Vec<u32>, Vec<u32>) {
        let nodes = self.ends.len();
        let mut starts = vec![0u32; nodes + 1];
        for arc in &self.arcs {
            starts[arc.to as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut places = starts.clone();
        let mut arcs = vec![0; self.arcs.len()];
        // As many arcs leave a node as come to it: the reverse of each.
        for (arc, &Arc { to, .. }) in self.arcs.iter().enumerate() {
            arcs[places[to as usize] as usize] = arc as u32 ^ 1;
            places[to as usize] += 1;
        }
        (starts, arcs)
    }
}

/// Arcs visited between two calls of `tell`.
const TOLD_STEPS: u64 = 1 << 20;

/// The tree that a node is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    None,
    Source,
    Sink,
}

/// What a node hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parent {
    None,
    /// The source or the sink.
    End,
    /// The end of this arc, which leaves the node.
    Arc(u32),
}

#[derive(Clone, Copy, Debug)]
struct Node {
    tree: Tree,
    parent: Parent,
    is_active: bool,
    /// Number of nodes on the way to the end, as of the time `seen`.
    depth: u32,
    seen: u32,
}

struct Trees {
    graph: Graph,
    leaving: (Vec<u32>, Vec<u32>),
    nodes: Vec<Node>,
    /// Nodes from which a tree may grow.
    active: VecDeque<u32>,
    /// Nodes that lost their parent.
    orphans: VecDeque<u32>,
    /// Number of paths so far. What was seen since the last one is true.
    time: u32,
    steps: u64,
}

impl Trees {
    fn new(mut graph: Graph, steps: u64) -> Self {
        let mut nodes = Vec::with_capacity(graph.ends.len());
        let mut active = VecDeque::new();
        for (number, [feed, drain]) in (0..).zip(&mut graph.ends) {
            // What comes and goes at one node flows at once.
            let through = (*feed).min(*drain);
            (*feed, *drain) = (*feed - through, *drain - through);
            let tree = match (*feed, *drain) {
                (0, 0) => Tree::None,
                (_, 0) => Tree::Source,
                _ => Tree::Sink,
            };
            let is_active = tree != Tree::None;
            if is_active {
                active.push_back(number);
            }
            nodes.push(Node {
                tree,
                parent: if is_active { Parent::End } else { Parent::None },
                is_active,
                depth: 1,
                seen: 0,
            });
        }
        Self {
            leaving: graph.leaving(),
            graph,
            nodes,
            active,
            orphans: VecDeque::new(),
            time: 0,
            steps,
        }
    }

    /// The arcs that leave a node. Takes them from the steps, and returns none where these do not suffice.
    fn arcs(&mut self, node: u32) -> Option<std::ops::Range<usize>> {
        let starts = &self.leaving.0;
        let range = starts[node as usize] as usize..starts[node as usize + 1] as usize;
        self.steps = self.steps.checked_sub(1 + range.len() as u64)?;
        Some(range)
    }

    fn to(&self, arc: u32) -> u32 {
        self.graph.arcs[arc as usize].to
    }

    /// Capacity by which a tree reaches over an arc from a node of its own: along it, or against it in the sink's tree.
    fn reach(&self, tree: Tree, arc: u32) -> u64 {
        let arc = if tree == Tree::Source { arc } else { arc ^ 1 };
        self.graph.arcs[arc as usize].capacity
    }

    fn activate(&mut self, node: u32) {
        if !std::mem::replace(&mut self.nodes[node as usize].is_active, true) {
            self.active.push_back(node);
        }
    }

    /// Sends flow until the trees no longer meet.
    fn grow(&mut self, tell: &mut impl FnMut()) -> Option<()> {
        let mut told = self.steps;
        while let Some(&node) = self.active.front() {
            if told - self.steps >= TOLD_STEPS {
                told = self.steps;
                tell();
            }
            if let Some(arc) = self.meet(node)? {
                self.time += 1;
                self.send(arc)?;
                while let Some(orphan) = self.orphans.pop_front() {
                    self.adopt(orphan)?;
                }
            } else {
                self.active.pop_front();
                self.nodes[node as usize].is_active = false;
            }
        }
        Some(())
    }

    /// Grows a tree from one of its nodes. Returns an arc from the source's tree to the sink's, if they meet.
    fn meet(&mut self, node: u32) -> Option<Option<u32>> {
        let Node {
            tree, depth, seen, ..
        } = self.nodes[node as usize];
        if tree == Tree::None {
            return Some(None);
        }
        for place in self.arcs(node)? {
            let arc = self.leaving.1[place];
            if self.reach(tree, arc) == 0 {
                continue;
            }
            let to = self.to(arc);
            let other = &mut self.nodes[to as usize];
            if other.tree == Tree::None {
                (other.tree, other.parent) = (tree, Parent::Arc(arc ^ 1));
                (other.depth, other.seen) = (depth + 1, seen);
                self.activate(to);
            } else if other.tree != tree {
                return Some(Some(if tree == Tree::Source { arc } else { arc ^ 1 }));
            } else if other.seen <= seen && other.depth > depth + 1 {
                // A shorter way to the end.
                other.parent = Parent::Arc(arc ^ 1);
                (other.depth, other.seen) = (depth + 1, seen);
            }
        }
        Some(None)
    }

    /// Sends what the path over an arc between the trees holds. Nodes behind a full arc become orphans.
    fn send(&mut self, arc: u32) -> Option<()> {
        let ends = [(self.to(arc ^ 1), Tree::Source), (self.to(arc), Tree::Sink)];
        let mut flow = self.graph.arcs[arc as usize].capacity;
        for (first, tree) in ends {
            let mut node = first;
            while let Parent::Arc(up) = self.nodes[node as usize].parent {
                self.steps = self.steps.checked_sub(2)?;
                flow = flow.min(self.reach(tree, up ^ 1));
                node = self.to(up);
            }
            flow = flow.min(self.graph.ends[node as usize][usize::from(tree == Tree::Sink)]);
        }
        self.pass(arc, flow);
        for (first, tree) in ends {
            let mut node = first;
            while let Parent::Arc(up) = self.nodes[node as usize].parent {
                self.pass(if tree == Tree::Source { up ^ 1 } else { up }, flow);
                if self.reach(tree, up ^ 1) == 0 {
                    self.orphan(node);
                }
                node = self.to(up);
            }
            let left = &mut self.graph.ends[node as usize][usize::from(tree == Tree::Sink)];
            *left -= flow;
            if *left == 0 {
                self.orphan(node);
            }
        }
        Some(())
    }

    fn pass(&mut self, arc: u32, flow: u64) {
        self.graph.arcs[arc as usize].capacity -= flow;
        self.graph.arcs[arc as usize ^ 1].capacity += flow;
    }

    fn orphan(&mut self, node: u32) {
        self.nodes[node as usize].parent = Parent::None;
        self.orphans.push_back(node);
    }

    /// Finds an orphan the parent in its tree that is nearest to the end. Where there is none, it leaves the tree.
    fn adopt(&mut self, orphan: u32) -> Option<()> {
        let tree = self.nodes[orphan as usize].tree;
        let arcs = self.arcs(orphan)?;
        let mut best: Option<(u32, u32)> = None;
        for place in arcs.clone() {
            let arc = self.leaving.1[place];
            let other = self.to(arc);
            if self.reach(tree, arc ^ 1) > 0
                && self.nodes[other as usize].tree == tree
                && let Some(depth) = self.depth(other)?
                && best.is_none_or(|(least, _)| depth < least)
            {
                best = Some((depth, arc));
            }
        }
        if let Some((depth, arc)) = best {
            let node = &mut self.nodes[orphan as usize];
            node.parent = Parent::Arc(arc);
            (node.depth, node.seen) = (depth + 1, self.time);
            return Some(());
        }
        self.nodes[orphan as usize].tree = Tree::None;
        for place in arcs {
            let arc = self.leaving.1[place];
            let other = self.to(arc);
            if self.nodes[other as usize].tree != tree {
                continue;
            }
            if self.reach(tree, arc ^ 1) > 0 {
                self.activate(other);
            }
            if self.nodes[other as usize].parent == Parent::Arc(arc ^ 1) {
                self.orphan(other);
            }
        }
        Some(())
    }

    /// The number of nodes on the way from a node to the end of its tree; none where an orphan is on it. Notes the depth
    /// of all on the way.
    fn depth(&mut self, from: u32) -> Option<Option<u32>> {
        let (mut node, mut length) = (from, 0);
        let rest = loop {
            self.steps = self.steps.checked_sub(1)?;
            let Node {
                parent,
                seen,
                depth,
                ..
            } = self.nodes[node as usize];
            match parent {
                Parent::None => return Some(None),
                Parent::End => break 1,
                Parent::Arc(_) if seen == self.time => break depth,
                Parent::Arc(up) => node = self.to(up),
            }
            length += 1;
        };
        let all = length + rest;
        let mut node = from;
        for depth in (rest..=all).rev() {
            let here = &mut self.nodes[node as usize];
            (here.depth, here.seen) = (depth, self.time);
            if let Parent::Arc(up) = here.parent {
                node = self.to(up);
            }
        }
        Some(Some(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, the same each time.
    fn noise(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 33
    }

    /// Total capacity from a side to the rest.
    fn weight(side: u32, links: &[(u32, u32, u64)], feeds: &[u64], drains: &[u64]) -> u64 {
        let within = |node: u32| side >> node & 1 == 1;
        let crossing = links.iter().filter(|(a, b, _)| within(*a) != within(*b));
        let ends = feeds.iter().zip(drains).enumerate();
        crossing.map(|link| link.2).sum::<u64>()
            + ends
                .map(|(node, (feed, drain))| if within(node as u32) { *drain } else { *feed })
                .sum::<u64>()
    }

    #[test]
    fn no_side_has_a_lighter_border() {
        let mut state = 7;
        for _ in 0..300 {
            let nodes = 3 + noise(&mut state) as u32 % 7;
            let links: Vec<(u32, u32, u64)> = (0..noise(&mut state) % 20)
                .map(|_| {
                    let [a, b] = [0; 2].map(|_: u32| noise(&mut state) as u32 % nodes);
                    (a, b, noise(&mut state) % 9)
                })
                .filter(|(a, b, _)| a != b)
                .collect();
            let [feeds, drains] = [0; 2].map(|_: u32| -> Vec<u64> {
                (0..nodes)
                    .map(|_| (noise(&mut state) % 12).saturating_sub(6))
                    .collect()
            });
            let mut graph = Graph::new(nodes as usize);
            links.iter().for_each(|&(a, b, c)| graph.link(a, b, c));
            for node in 0..nodes {
                graph.feed(node, feeds[node as usize]);
                graph.drain(node, drains[node as usize]);
            }
            let side = graph.cut(u64::MAX, || ()).unwrap();
            let side = (0..nodes)
                .filter(|&n| side[n as usize])
                .map(|n| 1 << n)
                .sum();
            let found = weight(side, &links, &feeds, &drains);
            let least = (0..1 << nodes)
                .map(|side| weight(side, &links, &feeds, &drains))
                .min();
            assert_eq!(Some(found), least, "{links:?} {feeds:?} {drains:?}");
        }
    }

    #[test]
    fn a_grid_is_cut_where_it_is_weakest() {
        // Columns of 40 nodes between the ends; the edges from one column to the next are cheap once, in a zigzag.
        let (columns, rows) = (60, 40);
        let mut state = 11;
        let weak: Vec<u32> = (0..rows).map(|row| 20 + (row % 5)).collect();
        let mut graph = Graph::new((columns * rows) as usize);
        for row in 0..rows {
            for column in 0..columns {
                let node = row * columns + column;
                if column + 1 < columns {
                    let cheap = column == weak[row as usize];
                    let price = if cheap {
                        1
                    } else {
                        500 + noise(&mut state) % 500
                    };
                    graph.link(node, node + 1, price);
                }
                if row + 1 < rows {
                    // The zigzag crosses these.
                    let [a, b] = [weak[row as usize], weak[row as usize + 1]];
                    let crossed = (a.min(b) + 1..=a.max(b)).contains(&column);
                    let price = if crossed {
                        1
                    } else {
                        500 + noise(&mut state) % 500
                    };
                    graph.link(node, node + columns, price);
                }
            }
            graph.feed(row * columns, 1 << 50);
            graph.drain(row * columns + columns - 1, 1 << 50);
        }
        let side = graph.cut(u64::MAX, || ()).unwrap();
        for row in 0..rows {
            for column in 0..columns {
                let wanted = column <= weak[row as usize];
                assert_eq!(
                    side[(row * columns + column) as usize],
                    wanted,
                    "{column} {row}"
                );
            }
        }
    }

    #[test]
    fn steps_are_bounded() {
        let build = || {
            let mut graph = Graph::new(1000);
            (0..999).for_each(|node| graph.link(node, node + 1, 1 + u64::from(node % 7)));
            graph.feed(0, 100);
            graph.drain(999, 100);
            graph
        };
        assert!(build().cut(500, || ()).is_none());
        let mut left = 1_000_000;
        let side = build().cut_within(&mut left, || ()).unwrap();
        assert_eq!(side.iter().filter(|&&side| side).count(), 1);
        assert!((2000..100_000).contains(&(1_000_000 - left)), "{left} left");
    }
}
