//! `kiln bake --jobs` over a fleet: each job of the list is submitted and awaited, and its files are put where the list says.

use std::cell::RefCell;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use indicatif::MultiProgress;
use proto::exit;
use proto::message::Code;

use super::run::{Desk, fail};
use super::{Delivery, Submit, What};
use crate::error::JobError;
use crate::fleet::{Fleet, Place};
use crate::job::Spec;
use crate::job::many::Sum;
use crate::remote::RemoteError;
use crate::remote::collect::Inputs;
use crate::screen::Voice;
use crate::serve::elsewhere::AT_ONCE;
use crate::store::JobId;

/// Has a list of jobs done by a fleet.
pub async fn all(
    specs: Vec<Spec>,
    place: &Place,
    json: bool,
    voice: Voice,
    bars: &MultiProgress,
) -> Sum {
    let began = Instant::now();
    let depot = match Fleet::open(place) {
        Ok(depot) => depot,
        Err(error) => {
            let code = fail(&error, json, bars);
            return Sum {
                done: 0,
                failed: specs.len(),
                time: began.elapsed(),
                code,
            };
        }
    };
    let first = RefCell::new(exit::OK);
    let one = async |spec: Spec| {
        let desk = Desk {
            depot: &depot,
            bars,
            json,
            voice,
            name: Some(spec.name.to_string()),
        };
        let code = match submit(spec) {
            Ok(submit) => desk.carry_out(What::Submit(Box::new(submit))).await,
            Err(error) => desk.fail(&RemoteError::from(error)),
        };
        let mut first = first.borrow_mut();
        if *first == exit::OK {
            *first = code;
        }
        code == exit::OK
    };
    let jobs = stream::iter(specs).map(one).buffer_unordered(AT_ONCE);
    let ended: Vec<bool> = jobs.collect().await;
    let done = ended.iter().filter(|done| **done).count();
    Sum {
        done,
        failed: ended.len() - done,
        time: began.elapsed(),
        code: first.into_inner(),
    }
}

fn submit(spec: Spec) -> Result<Submit, Box<JobError>> {
    if !spec.beside.is_empty() || spec.rejected.is_some() || spec.dry_run {
        let message = "a fleet makes GLBs alone, with preview, page, maps and report";
        let hint = "kiln bake without --queue makes the rest";
        return Err(JobError::own(Code::UnsupportedFeature, message, hint));
    }
    let mut options = spec.options;
    options.name = spec.name.to_string();
    options.preview |= spec.preview.is_some();
    options.html |= spec.html.is_some();
    options.maps |= spec.maps.is_some();
    Ok(Submit {
        inputs: Inputs {
            mesh: spec.mesh,
            views: spec.views,
            original: spec.original,
        },
        options,
        key: JobId::fresh().to_string(),
        retry: true,
        delivery: Some(Delivery {
            glb: spec.glb,
            preview: spec.preview,
            html: spec.html,
            maps: spec.maps,
            report: spec.report,
        }),
    })
}
