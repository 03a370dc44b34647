//! The layers of each crate: the source files → the arrows between them → no arrow upwards, and no circle of imports of
//! more than three files.
//!
//! An arrow A → B: file A names an item of file B by a path, in a `use` line or in its text. A re-export is followed to the
//! file that defines the item, and is no arrow itself. `mod` lines are none, and test code does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The most files that a circle of imports may have.
const LARGEST_CIRCLE: usize = 3;

/// The layers of each crate, lowest first. A module belongs to the layer of its longest prefix here, and takes names from
/// its own layer and from those below it.
const LAYERS: [(&str, &[&[&str]]); 7] = [
    ("proto/src", &[&[""]]),
    ("baker/raster/src", &[&[""]]),
    ("baker/atlas/src", &[&[""]]),
    ("baker/splat/src", &[&[""]]),
    (
        "baker/src",
        &[
            &["worker"],
            &["image"],
            &["bake::model", "bake::plan::quality", "bake::plan::window"],
            &["bake", "bake::model::row_cache"],
            &["prepare"],
            &["encode"],
            &["compare"],
            &["run", "doctor", ""],
        ],
    ),
    (
        "supervisor/fleet/src",
        &[&["", "record", "bucket"], &["fate"], &["ledger", "queue"]],
    ),
    (
        "supervisor/src",
        &[
            &[
                "words",
                "home",
                "error",
                "failpoint",
                "panics",
                "store::digest",
                "store::hex",
                "process::verdict::class",
                "process::workers",
                "process::reserve",
                "process::procfs",
                "process::logs",
            ],
            &[
                "process::verdict",
                "process::watch",
                "host::ladder",
                "host::fleet",
                "host::gate",
                "job::life",
            ],
            &[
                "input",
                "output",
                "options",
                "event",
                "report",
                "print",
                "signals",
                "job::spec",
            ],
            &["process"],
            &["host", "job::running", "job::spare", "job::lend"],
            &["job"],
            &["store"],
            &["serve"],
            &["remote"],
            &["screen", "doctor"],
            &["fleet"],
            &["cli", "run", ""],
        ],
    ),
];

type Module = Vec<String>;

/// What a file takes by a path: the module of the path, and the name in it.
type Target = (Module, String);

/// The names that one file takes from another.
type Arrows = BTreeMap<(Module, Module), BTreeSet<String>>;

#[derive(Default)]
struct File {
    /// Paths of `use` lines as they are written, with the name that each gets here.
    uses: Vec<(Vec<String>, String)>,
    /// Like `uses`, of re-exports.
    exports: Vec<(Vec<String>, String)>,
    /// Paths in the text.
    paths: Vec<Vec<String>>,
}

/// Is `attribute` a `cfg` that asks for tests?
fn for_tests(attribute: &TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("cfg(test")
        || text.starts_with("cfg(all(test")
        || text.starts_with("cfg(any(test")
}

fn is(tree: Option<&TokenTree>, mark: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

fn ident(tree: Option<&TokenTree>) -> Option<String> {
    match tree {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Index after the item that begins at `from`: after its `;` or its block.
fn after_item(trees: &[TokenTree], from: usize) -> usize {
    let ends = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        tree => is(Some(tree), ';'),
    };
    let item = trees[from..].iter().position(ends);
    item.map_or(trees.len(), |length| from + length + 1)
}

/// The path that begins at `from`, and the index after it.
fn path(trees: &[TokenTree], from: usize) -> (Vec<String>, usize) {
    let mut names: Vec<String> = ident(trees.get(from)).into_iter().collect();
    let mut at = from + 1;
    while is(trees.get(at), ':') && is(trees.get(at + 1), ':') {
        let Some(name) = ident(trees.get(at + 2)) else {
            break;
        };
        names.push(name);
        at += 3;
    }
    (names, at)
}

/// The leaves of a tree of `use`, each with the name that it gets.
fn leaves(trees: &[TokenTree], before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    for leaf in trees.split(|tree| is(Some(tree), ',')) {
        if leaf.is_empty() {
            continue;
        }
        let (names, mut at) = path(leaf, 0);
        let whole = [before, &names].concat();
        while is(leaf.get(at), ':') {
            at += 1;
        }
        match leaf.get(at) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                leaves(&inner, &whole, found);
            }
            _ => {
                let renamed = ident(leaf.get(at)).and_then(|_| ident(leaf.get(at + 1)));
                let own = || whole.iter().rev().find(|name| *name != "self").cloned();
                let name = renamed.or_else(own).unwrap_or_default();
                found.push((whole, name));
            }
        }
    }
}

fn read(stream: TokenStream, file: &mut File) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    let mut handed_on = false;
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let mut tests = false;
                while is(trees.get(at), '#') {
                    at += if is(trees.get(at + 1), '!') { 2 } else { 1 };
                    if let Some(TokenTree::Group(attribute)) = trees.get(at) {
                        tests |= for_tests(&attribute.stream());
                    }
                    at += 1;
                }
                if tests {
                    at = after_item(&trees, at);
                }
            }
            TokenTree::Ident(word) if word == "pub" => {
                handed_on = true;
                at += 1;
                if matches!(trees.get(at), Some(TokenTree::Group(_))) {
                    at += 1;
                }
                continue;
            }
            TokenTree::Ident(word) if word == "use" => {
                let end = after_item(&trees, at);
                let found = if handed_on {
                    &mut file.exports
                } else {
                    &mut file.uses
                };
                // A `use` may hold a block of its own: it ends at its semicolon.
                let end = (end - 1..trees.len())
                    .find(|&at| is(trees.get(at), ';'))
                    .unwrap_or(end);
                leaves(&trees[at + 1..end], &[], found);
                at = end;
            }
            TokenTree::Ident(_) => {
                let (names, end) = path(&trees, at);
                if names.len() > 1 {
                    file.paths.push(names);
                }
                at = end;
            }
            TokenTree::Group(group) => {
                read(group.stream(), file);
                at += 1;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
        }
        handed_on = false;
    }
}

/// All files beneath `folder`, by module.
fn files(folder: &Path, module: &[String], found: &mut BTreeMap<Module, File>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if ["tests", "fixture", "main", "bin"].contains(&&*name) {
            continue;
        }
        let root = name == "lib" && module.is_empty();
        let module = if root {
            Vec::new()
        } else {
            [module, &[name]].concat()
        };
        if path.is_dir() {
            files(&path, &module, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let stream = text.parse().expect("Rust");
            read(stream, found.entry(module).or_default());
        }
    }
}

struct Crate {
    files: BTreeMap<Module, File>,
    /// What each module hands on, by name.
    exports: BTreeMap<Module, BTreeMap<String, Target>>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut files_found = BTreeMap::new();
        files(folder, &[], &mut files_found);
        let mut all = Self {
            files: files_found,
            exports: BTreeMap::new(),
        };
        for (module, file) in &all.files {
            let resolve = |(path, name): &(Vec<String>, String)| {
                Some((name.clone(), all.resolve(module, path)?))
            };
            let exports = file.exports.iter().filter_map(resolve).collect();
            all.exports.insert(module.clone(), exports);
        }
        all
    }

    /// The module that a path in `module` leads into, and the name that it takes there: `self` for the module itself.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<Target> {
        let mut rest = path;
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            child => {
                let within = [module, &[child.to_owned()]].concat();
                self.files.contains_key(&within).then(|| module.to_vec())?
            }
        };
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            rest = others;
        }
        while let Some((first, others)) = rest.split_first() {
            let deeper = [at.as_slice(), std::slice::from_ref(first)].concat();
            if !self.files.contains_key(&deeper) {
                break;
            }
            (at, rest) = (deeper, others);
        }
        let name = rest.first().cloned().unwrap_or_else(|| "self".to_owned());
        self.files.contains_key(&at).then_some((at, name))
    }

    /// The file that defines what `target` names.
    fn origin(&self, mut target: Target) -> Target {
        // A circle of re-exports does not compile, so the bound is never reached.
        for _ in 0..8 {
            match self
                .exports
                .get(&target.0)
                .and_then(|names| names.get(&target.1))
            {
                Some(next) if *next != target => target = next.clone(),
                _ => break,
            }
        }
        target
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        let mut add = |from: &Module, target: Target| {
            let (to, name) = self.origin(target);
            // A module's name alone takes nothing yet: the paths that begin with it do.
            if to != *from && name != "self" {
                arrows.entry((from.clone(), to)).or_default().insert(name);
            }
        };
        for (module, file) in &self.files {
            let mut aliases = BTreeMap::new();
            for (path, name) in &file.uses {
                let Some(target) = self.resolve(module, path) else {
                    continue;
                };
                if target.1 == "self" {
                    aliases.insert(name.as_str(), target.0.clone());
                }
                add(module, target);
            }
            for path in &file.paths {
                let aliased = aliases.get(path[0].as_str()).map(|alias| {
                    let whole: Vec<String> = ["crate".to_owned()]
                        .into_iter()
                        .chain(alias.iter().cloned())
                        .collect();
                    [&whole, &path[1..]].concat()
                });
                let target = self.resolve(module, aliased.as_ref().unwrap_or(path));
                target.into_iter().for_each(|target| add(module, target));
            }
        }
        arrows
    }
}

/// The groups of files each of which reaches all others of its group.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<Module>> {
    let mut onward: BTreeMap<&Module, Vec<&Module>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        onward.entry(from).or_default().push(to);
    }
    let reach = |from| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(module) = next.pop() {
            let there = onward.get(module).into_iter().flatten();
            next.extend(there.copied().filter(|&to| seen.insert(to)));
        }
        (from, seen)
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = onward.keys().copied().map(reach).collect();
    let circle = |(from, there): (&&Module, &BTreeSet<&Module>)| -> BTreeSet<Module> {
        let back = |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(*from));
        there.iter().filter(back).map(|&to| to.clone()).collect()
    };
    let all: BTreeSet<BTreeSet<Module>> = reached.iter().map(circle).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// The layer of a module; none where the table has no prefix of it.
fn layer(layers: &[&[&str]], module: &Module) -> Option<usize> {
    let name = module.join("::");
    let rank = |prefix: &str| {
        let within =
            prefix.is_empty() || name == prefix || name.starts_with(&format!("{prefix}::"));
        within.then_some(prefix.len())
    };
    let best = layers.iter().enumerate().filter_map(|(layer, prefixes)| {
        let longest = prefixes.iter().filter_map(|prefix| rank(prefix)).max()?;
        Some((longest, layer))
    });
    best.max().map(|(_, layer)| layer)
}

fn name(module: &Module) -> String {
    if module.is_empty() {
        "lib".to_owned()
    } else {
        module.join("::")
    }
}

/// What a crate's arrows do against its table, a line each.
fn faults(layers: &[&[&str]], arrows: &Arrows) -> String {
    let mut faults = String::new();
    let mut say = |line: String| writeln!(faults, "{line}").expect("a string takes all");
    for ((from, to), names) in arrows {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (from, to, names) = (from, to, names.join(", "));
        match (layer(layers, from), layer(layers, to)) {
            (Some(above), Some(below)) if above >= below => {}
            (Some(_), Some(_)) => say(format!(
                "{} takes {names} from {}, a layer above it",
                name(from),
                name(to)
            )),
            (None, _) => say(format!("{} is in no layer", name(from))),
            (_, None) => say(format!("{} is in no layer", name(to))),
        }
    }
    for circle in circles(arrows)
        .iter()
        .filter(|circle| circle.len() > LARGEST_CIRCLE)
    {
        say(format!("a circle of {} files:", circle.len()));
        for ((from, to), names) in arrows {
            if circle.contains(from) && circle.contains(to) {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                say(format!(
                    "    {} takes {} from {}",
                    name(from),
                    names.join(", "),
                    name(to)
                ));
            }
        }
    }
    faults
}

#[test]
fn no_import_runs_upwards_and_no_circle_has_more_than_three_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the repository");
    let mut all = String::new();
    for (folder, layers) in LAYERS {
        let arrows = Crate::read(&root.join(folder)).arrows();
        assert!(!arrows.is_empty(), "{folder} has sources");
        let faults = faults(layers, &arrows);
        if !faults.is_empty() {
            writeln!(all, "{folder}\n{faults}").expect("a string takes all");
        }
    }
    assert!(all.is_empty(), "{all}");
}

/// The oracle itself: what it takes for arrows, circles and faults.
#[test]
fn what_the_table_forbids_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a source file");
    };
    write(
        "lib.rs",
        "mod a; mod b; mod c; mod d; #[cfg(test)] mod tests { use crate::d::Four; }",
    );
    write(
        "a.rs",
        "pub use crate::b::handed as on; use crate::b::{self, inner::Two}; fn f() { b::inner::g(); }",
    );
    write("b.rs", "pub mod inner; pub use inner::handed;");
    write(
        "b/inner.rs",
        "use crate::c::Three; pub struct Two; pub fn g() {} pub fn handed() {}",
    );
    write(
        "c.rs",
        "pub struct Three; fn f() { println!(\"{}\", crate::d::four()); }",
    );
    write(
        "d.rs",
        "use super::a::on; #[cfg(test)] use crate::c::Three; pub struct Four;",
    );
    let arrows = Crate::read(folder.path()).arrows();
    let found: Vec<String> = arrows
        .iter()
        .map(|((from, to), names)| format!("{} {} {names:?}", name(from), name(to)))
        .collect();
    let expected = [
        "a b::inner {\"Two\", \"g\"}",
        "b::inner c {\"Three\"}",
        "c d {\"four\"}",
        "d b::inner {\"handed\"}",
    ];
    assert_eq!(found, expected);
    let circles = circles(&arrows);
    assert_eq!(circles.len(), 1);
    assert_eq!(
        circles[0].iter().map(name).collect::<Vec<_>>(),
        ["b::inner", "c", "d"]
    );
    assert_eq!(faults(&[&["d", "c", "b"], &["a"]], &arrows), "");
    assert_eq!(
        faults(&[&["d"], &["c", "b"], &["a"]], &arrows),
        "d takes handed from b::inner, a layer above it\n"
    );
    assert!(faults(&[&["d"], &["c"], &["a"]], &arrows).contains("b::inner is in no layer"));
}
