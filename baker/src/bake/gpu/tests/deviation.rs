//! Deviation of the views from each texel, against [`super::reference`] and the native backend.

use proto::job::{Blend, Memory};
use proto::table::maps::residual_code;

use super::solve::{SIZE, STRENGTH, double, job, random_texels, ties, views};
use super::{Setup, add, ball, device, fit, options, reference, small};
use crate::bake::solve::backend::{Backend, Belief, Ties};
use crate::bake::solve::native::Native;

fn mapped() -> Setup {
    Setup {
        maps: true,
        ..options()
    }
}

#[test]
fn deviations_are_the_weighted_means() {
    let scene = ball(24, SIZE);
    for blend in [Blend::Linear, Blend::Srgb] {
        let Some((mut gpu, rows)) = job(&scene, &Setup { blend, ..mapped() }) else {
            return;
        };
        let texels = random_texels(31);
        gpu.write_texels(&texels).expect("written");
        // The weights of a fit must not matter here, nor what the solver left in its planes.
        gpu.reweight(&[0.1, 0.0, 0.3].map(Belief::from), STRENGTH)
            .expect("weighed");
        gpu.solve(1).expect("solved");
        gpu.write_texels(&texels).expect("written");
        let ours = gpu.deviations().expect("deviations");
        assert!(ours == gpu.deviations().expect("deviations"), "repeatable");
        let theirs = reference::deviations(&rows, &double(&texels), blend, texels.len());
        let (mut largest, mut seen) = (0.0f64, 0);
        for (&a, &(b, weight)) in ours.iter().zip(&theirs) {
            if weight == 0.0 {
                assert_eq!(a, -1.0);
            } else if weight > 1e-6 {
                // A weight of 1e-4 is a thousand steps of a sum, which limits the accuracy of its mean.
                largest = largest.max((f64::from(a) - b).abs() * weight.min(1.0));
                seen += 1;
            }
        }
        assert!(largest < 1e-5 && seen > 3000, "{largest} of {seen}");
    }
}

#[test]
fn both_adapters_say_the_same_of_the_views() {
    let scene = ball(24, SIZE);
    let Some((mut gpu, rows)) = job(&scene, &mapped()) else {
        return;
    };
    let mut native = Native::new(
        scene.clone(),
        ties(&scene),
        mapped().taps,
        Blend::Linear,
        Memory::Full,
    );
    add(&mut native, &views());
    let texels = random_texels(32);
    gpu.write_texels(&texels).expect("written");
    native.write_texels(&texels).expect("written");
    let (ours, theirs) = (
        gpu.deviations().expect("deviations"),
        native.deviations().expect("deviations"),
    );
    let weights = reference::deviations(&rows, &double(&texels), Blend::Linear, texels.len());
    // A few pixels on edges have a row on one side only.
    let (mut same, mut near, mut all) = (0, 0, 0);
    for ((&a, &b), &(_, weight)) in ours.iter().zip(&theirs).zip(&weights) {
        if weight > 0.05 {
            let [a, b] = [a, b].map(|off| residual_code(Some(off).filter(|&off| off >= 0.0)));
            all += 1;
            same += u32::from(a == b);
            near += u32::from(a.abs_diff(b) <= 1);
        }
    }
    assert!(all > 3000);
    let shares = [same, near].map(|n| f64::from(n) / f64::from(all));
    assert!(shares[0] > 0.95 && shares[1] > 0.98, "{shares:?} of {all}");
}

#[test]
fn rows_that_are_drawn_again_deviate_no_otherwise() {
    let scene = ball(24, SIZE);
    let texels = random_texels(33);
    let small = Setup {
        maps: true,
        ..small()
    };
    // None where the budget is too small.
    let deviations = |budget: u64| {
        let options = Setup {
            vram_budget: budget,
            ..small
        };
        let mut gpu = super::begin(device()?, scene.clone(), &Ties::default(), &options).ok()?;
        views()
            .iter()
            .try_for_each(|view| gpu.add_view(view))
            .ok()?;
        gpu.write_texels(&texels).ok()?;
        let streamed = fit(&gpu).store.streamed();
        Some((gpu.deviations().ok()?, streamed))
    };
    let Some(held) = deviations(small.vram_budget) else {
        assert!(device().is_none(), "it fits the budget");
        return;
    };
    let streamed = (0..).find_map(|step| deviations((8 << 20) + (step << 17)));
    let streamed = streamed.expect("some budget suffices");
    assert!(streamed.1 && !held.1);
    assert!(streamed.0 == held.0, "streaming changes the result");
}

#[test]
fn a_job_without_maps_has_no_stage_for_them() {
    let Some((mut gpu, _)) = job(&ball(8, SIZE), &options()) else {
        return;
    };
    let refused = gpu.deviations().expect_err("it was not asked for");
    assert!(refused.to_string().contains("without maps"), "{refused}");
}
