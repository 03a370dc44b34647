//! Minimum cut of a graph with sources and sinks (Dinic, 1970), in a bounded number of steps.
//!
//! Capacities are integers, so the cut is the same on every machine. It is the set of nodes that the sources still
//! reach when the flow is maximal, the smallest source side of all minimum cuts.

/// An arc. Its reverse is the neighbour in the list (index xor 1).
#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    capacity: u64,
}

/// The graph. Source and sink are two extra nodes at the end.
#[derive(Debug)]
pub struct Graph {
    arcs: Vec<Arc>,
    /// The node that each arc leaves.
    from: Vec<u32>,
    nodes: usize,
}

impl Graph {
    /// A graph of `nodes` nodes besides source and sink.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self {
            arcs: Vec::new(),
            from: Vec::new(),
            nodes,
        }
    }

    /// Adds an edge with this capacity in both directions.
    pub fn link(&mut self, a: u32, b: u32, capacity: u64) {
        self.arc(a, b, [capacity; 2]);
    }

    /// Adds an arc from the source.
    pub fn feed(&mut self, node: u32, capacity: u64) {
        self.arc(self.nodes as u32, node, [capacity, 0]);
    }

    /// Adds an arc to the sink.
    pub fn drain(&mut self, node: u32, capacity: u64) {
        self.arc(node, self.nodes as u32 + 1, [capacity, 0]);
    }

    fn arc(&mut self, a: u32, b: u32, [there, back]: [u64; 2]) {
        self.from.extend([a, b]);
        self.arcs.extend([
            Arc {
                to: b,
                capacity: there,
            },
            Arc {
                to: a,
                capacity: back,
            },
        ]);
    }

    /// Returns the nodes on the source's side of the minimum cut; none where that would visit more than `steps` arcs.
    /// Calls `tell` in each round.
    pub fn cut(self, mut steps: u64, tell: impl FnMut()) -> Option<Vec<bool>> {
        self.cut_within(&mut steps, tell)
    }

    /// The same, and takes the arcs that it visits from `steps`.
    pub(crate) fn cut_within(
        mut self,
        steps: &mut u64,
        mut tell: impl FnMut(),
    ) -> Option<Vec<bool>> {
        let (source, sink) = (self.nodes, self.nodes + 1);
        let leaving = self.leaving();
        let of = |node: usize| leaving.0[node] as usize..leaving.0[node + 1] as usize;
        let mut level = vec![0u32; self.nodes + 2];
        let mut queue: Vec<u32> = Vec::with_capacity(self.nodes + 2);
        loop {
            tell();
            // Breadth-first levels from the source.
            level.fill(u32::MAX);
            level[source] = 0;
            queue.clear();
            queue.push(source as u32);
            let mut at = 0;
            while at < queue.len() && level[sink] == u32::MAX {
                let node = queue[at] as usize;
                at += 1;
                *steps = steps.checked_sub(of(node).len() as u64)?;
                for &arc in &leaving.1[of(node)] {
                    let Arc { to, capacity } = self.arcs[arc as usize];
                    if capacity > 0 && level[to as usize] == u32::MAX {
                        level[to as usize] = level[node] + 1;
                        queue.push(to);
                    }
                }
            }
            if level[sink] == u32::MAX {
                let side = level[..self.nodes].iter();
                return Some(side.map(|&level| level != u32::MAX).collect());
            }
            // A blocking flow, depth first. `next` is the first arc of each node that may not be blocked.
            let mut next: Vec<usize> = (0..self.nodes + 2).map(|node| of(node).start).collect();
            let mut path: Vec<u32> = Vec::new();
            loop {
                let node = path
                    .last()
                    .map_or(source, |&arc| self.arcs[arc as usize].to as usize);
                if node == sink {
                    let least = path
                        .iter()
                        .map(|&arc| self.arcs[arc as usize].capacity)
                        .min();
                    let flow = least.unwrap_or(0);
                    let mut keep = path.len();
                    for (place, &arc) in path.iter().enumerate().rev() {
                        self.arcs[arc as usize].capacity -= flow;
                        self.arcs[arc as usize ^ 1].capacity += flow;
                        if self.arcs[arc as usize].capacity == 0 {
                            keep = place;
                        }
                    }
                    *steps = steps.checked_sub(path.len() as u64)?;
                    path.truncate(keep);
                    continue;
                }
                *steps = steps.checked_sub(1)?;
                if next[node] == of(node).end {
                    // Blocked: go back, and past the arc that led here.
                    let Some(arc) = path.pop() else {
                        break;
                    };
                    next[self.arcs[arc as usize ^ 1].to as usize] += 1;
                    continue;
                }
                let arc = leaving.1[next[node]];
                let Arc { to, capacity } = self.arcs[arc as usize];
                if capacity > 0 && level[to as usize] == level[node] + 1 {
                    path.push(arc);
                } else {
                    next[node] += 1;
                }
            }
        }
    }

    /// Arcs sorted by the node that they leave: offsets, and arc indices.
    fn leaving(&self) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; self.nodes + 3];
        for &node in &self.from {
            starts[node as usize + 1] += 1;
        }
        for node in 0..self.nodes + 2 {
            starts[node + 1] += starts[node];
        }
        let mut places = starts.clone();
        let mut arcs = vec![0; self.arcs.len()];
        for (arc, &node) in self.from.iter().enumerate() {
            arcs[places[node as usize] as usize] = arc as u32;
            places[node as usize] += 1;
        }
        (starts, arcs)
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
