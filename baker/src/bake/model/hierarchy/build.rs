//! Triangles → the tree of their boxes.
//!
//! A part of the triangles is split where the areas of both boxes, times the leaves that they need, are least: a line meets a
//! box as often as it is large (Goldsmith and Salmon, 1987; of [`BINS`] places, Wald, 2007). The part with the largest such
//! product is split next, until a node has its children. Each split follows from its triangles alone, so any number of
//! threads builds the same tree.

use rayon::prelude::*;

use super::four::Four;
use super::{LEAF, Leaf, Node, Point, WIDE};
use crate::worker::progress::Ticker;

/// Places at which a part may be split.
const BINS: usize = 16;
/// Levels of a tree of 2³² triangles: from [`HALVED`] on the parts are halves.
pub(super) const LEVELS: usize = HALVED + 16;
/// Levels whose parts are split at the best place.
const HALVED: usize = 20;
/// Children of a node with more triangles are built side by side.
const SIDE_BY_SIDE: usize = 1 << 13;
/// Share of the largest coordinate by which boxes are larger than what is in them, so that no line slips between them.
const LARGER: f32 = 1e-6;

/// A box.
#[derive(Clone, Copy)]
struct Bounds {
    low: Point,
    high: Point,
}

impl Bounds {
    const NOTHING: Self = Self {
        low: [f32::INFINITY; 3],
        high: [f32::NEG_INFINITY; 3],
    };

    fn add(&mut self, other: &Self) {
        for axis in 0..3 {
            self.low[axis] = self.low[axis].min(other.low[axis]);
            self.high[axis] = self.high[axis].max(other.high[axis]);
        }
    }

    fn of(items: &[Item]) -> Self {
        let mut all = Self::NOTHING;
        items.iter().for_each(|item| all.add(&item.bounds));
        all
    }

    /// Half of the area of its sides; 0 of nothing.
    fn area(&self) -> f32 {
        let [x, y, z] = std::array::from_fn(|axis| (self.high[axis] - self.low[axis]).max(0.0));
        x * y + y * z + z * x
    }
}

/// Bytes of a triangle while the tree is built.
pub(super) const ITEM_BYTES: usize = size_of::<Item>();

/// A triangle.
struct Item {
    bounds: Bounds,
    triangle: u32,
}

impl Item {
    /// Twice the coordinate of the centre.
    fn centre(&self, axis: usize) -> f32 {
        self.bounds.low[axis] + self.bounds.high[axis]
    }
}

/// Some triangles of a node.
struct Part<'a> {
    items: &'a mut [Item],
    bounds: Bounds,
}

impl<'a> Part<'a> {
    fn new(items: &'a mut [Item]) -> Self {
        let bounds = Bounds::of(items);
        Self { items, bounds }
    }

    /// How much there is to gain by a split; 0 of what fits a leaf.
    fn cost(&self) -> f32 {
        match self.items.len() <= WIDE {
            true => 0.0,
            // Of triangles in one point there is nothing to gain, but they fit no leaf.
            false => (self.bounds.area() * self.items.len() as f32).max(f32::MIN_POSITIVE),
        }
    }
}

/// What trees are built of.
struct Soup<'a> {
    positions: &'a [Point],
    triangles: &'a [[u32; 3]],
    /// Distance by which boxes are larger.
    larger: f32,
}

/// Nodes and leaves, whose indices begin with this tree's own.
type Tree = (Vec<Node>, Vec<Leaf>);

/// The tree of these triangles; its root is the first node.
pub(super) fn build(positions: &[Point], triangles: &[[u32; 3]]) -> Tree {
    let item = |(triangle, corners): (usize, &[u32; 3])| {
        let mut bounds = Bounds::NOTHING;
        for corner in corners {
            let [low, high] = [positions[*corner as usize]; 2];
            bounds.add(&Bounds { low, high });
        }
        let triangle = triangle as u32;
        Item { bounds, triangle }
    };
    let mut items: Vec<Item> = triangles.par_iter().enumerate().map(item).collect();
    let all = Bounds::of(&items);
    let coordinates = all.low.iter().chain(&all.high);
    let soup = Soup {
        positions,
        triangles,
        larger: LARGER * coordinates.fold(0.0, |most, x| x.abs().max(most)),
    };
    let mut tree = Tree::default();
    if !items.is_empty() {
        soup.add(&mut tree, &mut items, 0);
    }
    tree
}

impl Soup<'_> {
    /// Adds the subtree of some triangles.
    fn add(&self, tree: &mut Tree, items: &mut [Item], level: usize) {
        let count = items.len();
        Ticker::default().did(count);
        let mut parts = vec![Part::new(items)];
        while parts.len() < WIDE {
            let costs = parts.iter().map(Part::cost).enumerate();
            let Some((most, _)) = costs
                .filter(|cost| cost.1 > 0.0)
                .max_by(|a, b| a.1.total_cmp(&b.1))
            else {
                break;
            };
            let items = parts.swap_remove(most).items;
            let middle = split(items, level);
            let (some, others) = items.split_at_mut(middle);
            parts.extend([Part::new(some), Part::new(others)]);
        }
        let at = tree.0.len();
        tree.0.push(self.node(&parts));
        if count > SIDE_BY_SIDE {
            let trees = parts.par_iter_mut().map(|part| {
                let mut tree = Tree::default();
                let child = self.child(&mut tree, part.items, level);
                (tree, child)
            });
            let trees: Vec<(Tree, u32)> = trees.collect();
            for (k, ((nodes, leaves), child)) in trees.into_iter().enumerate() {
                let first = [tree.0.len() as u32, tree.1.len() as u32];
                let moved = |child: u32| child + first[usize::from(child & LEAF != 0)];
                tree.0.extend(nodes.into_iter().map(|node| Node {
                    children: node.children.map(moved),
                    ..node
                }));
                tree.0[at].children[k] = moved(child);
                tree.1.extend(leaves);
            }
        } else {
            for (k, part) in parts.iter_mut().enumerate() {
                let child = self.child(tree, part.items, level);
                tree.0[at].children[k] = child;
            }
        }
    }

    /// Adds the subtree of a node's child, and says where it is.
    fn child(&self, tree: &mut Tree, items: &mut [Item], level: usize) -> u32 {
        if items.len() <= WIDE {
            tree.1.push(self.leaf(items));
            return LEAF | (tree.1.len() - 1) as u32;
        }
        let at = tree.0.len() as u32;
        self.add(tree, items, level + 1);
        at
    }

    fn node(&self, parts: &[Part<'_>]) -> Node {
        let of = |k: usize| parts.get(k).map_or(Bounds::NOTHING, |part| part.bounds);
        let low = |axis: usize| Four(std::array::from_fn(|k| of(k).low[axis] - self.larger));
        let high = |axis: usize| Four(std::array::from_fn(|k| of(k).high[axis] + self.larger));
        Node {
            bounds: [std::array::from_fn(low), std::array::from_fn(high)],
            children: [0; WIDE],
        }
    }

    fn leaf(&self, items: &[Item]) -> Leaf {
        let mut leaf = Leaf {
            corners: [[Four::all(0.0); 3]; 3],
            triangles: [0; WIDE],
            count: items.len() as u32,
        };
        for (k, item) in items.iter().enumerate() {
            leaf.triangles[k] = item.triangle;
            for (corner, &point) in self.triangles[item.triangle as usize].iter().enumerate() {
                for axis in 0..3 {
                    leaf.corners[corner][axis].0[k] = self.positions[point as usize][axis];
                }
            }
        }
        leaf
    }
}

/// Sorts more than a leaf's triangles into two parts, and gives the count of the first one.
fn split(items: &mut [Item], level: usize) -> usize {
    let (mut least, mut most) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for item in items.iter() {
        for axis in 0..3 {
            least[axis] = least[axis].min(item.centre(axis));
            most[axis] = most[axis].max(item.centre(axis));
        }
    }
    let side = |axis: usize| most[axis] - least[axis];
    let longest = (1..3).fold(0, |best, axis| match side(axis) > side(best) {
        true => axis,
        false => best,
    });
    let scale = BINS as f32 / side(longest);
    let bin = |item: &Item| {
        let at = (item.centre(longest) - least[longest]) * scale;
        (at as usize).min(BINS - 1)
    };
    let place = match level < HALVED && scale.is_finite() {
        true => best_place(items, bin),
        false => None,
    };
    let Some(place) = place else {
        let middle = items.len() / 2;
        items.select_nth_unstable_by(middle, |a, b| {
            let order = a.centre(longest).total_cmp(&b.centre(longest));
            order.then(a.triangle.cmp(&b.triangle))
        });
        return middle;
    };
    let mut middle = 0;
    for at in 0..items.len() {
        if bin(&items[at]) < place {
            items.swap(at, middle);
            middle += 1;
        }
    }
    middle
}

/// The bin with which the second part begins, at the least cost; none where all triangles are in one bin.
fn best_place(items: &[Item], bin: impl Fn(&Item) -> usize) -> Option<usize> {
    let mut bins = [(Bounds::NOTHING, 0_usize); BINS];
    for item in items {
        let (bounds, count) = &mut bins[bin(item)];
        bounds.add(&item.bounds);
        *count += 1;
    }
    // What lies from each bin on.
    let mut from = bins;
    for at in (0..BINS - 1).rev() {
        let (bounds, count) = from[at + 1];
        from[at].0.add(&bounds);
        from[at].1 += count;
    }
    let cost = |(bounds, count): &(Bounds, usize)| bounds.area() * count.div_ceil(WIDE) as f32;
    let (mut before, mut best) = ((Bounds::NOTHING, 0), None);
    for place in 1..BINS {
        before.0.add(&bins[place - 1].0);
        before.1 += bins[place - 1].1;
        let both = cost(&before) + cost(&from[place]);
        if before.1 > 0 && from[place].1 > 0 && best.is_none_or(|(_, least)| both < least) {
            best = Some((place, both));
        }
    }
    best.map(|(place, _)| place)
}
