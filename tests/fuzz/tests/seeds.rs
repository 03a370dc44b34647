//! Runs every seed, generated or kept, through its target without a fuzzer, so that past findings stay fixed.

use std::fs;

use kiln_fuzz::seed;
use kiln_fuzz::targets::ALL;

#[expect(clippy::print_stdout, reason = "shown where a seed fails: its name")]
fn replay(target: &str) {
    let (name, run) = ALL
        .into_iter()
        .find(|(name, _)| *name == target)
        .expect("a target");
    let mut accepted = 0;
    for (_, seed, bytes) in seed::all().iter().filter(|(of, ..)| *of == name) {
        println!("{name}: {seed}");
        let good = !seed.starts_with("refused");
        assert_eq!(run(bytes), good, "{seed}");
        accepted += u32::from(good);
    }
    assert!(accepted > 0, "{name} has no good seed");
    for (kept, bytes) in seed::kept(name).expect("kept seeds") {
        println!("{name}: {kept}");
        run(&bytes);
    }
    assert!(!run(&[]), "nothing is accepted");
}

macro_rules! replays {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                replay(stringify!($target));
            }
        )*

        #[test]
        fn no_target_and_no_seed_is_left_out() {
            let tested = [$(stringify!($target)),*];
            assert_eq!(ALL.map(|(name, _)| name), tested);
            for entry in fs::read_dir(seed::folder()).expect("the folder of seeds") {
                let name = entry.expect("an entry").file_name();
                let name = name.to_string_lossy();
                let target = name.strip_suffix(".pack").unwrap_or(&name);
                assert!(tested.contains(&target), "{name} belongs to no target");
            }
        }
    };
}

replays! { packet table gltf ply obj transforms picture log protocol soup opener recorder jobs colmap views arrays splats }
