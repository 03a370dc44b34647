//! Facts for the model of the children: which role writes each table, the smallest tables, and valid messages of each
//! role.

use std::sync::OnceLock;

use proto::message::{Done, Role, Table};
use proto::table::{Refined, SplatScene, View};
use supervisor::cli::{self, Command};
use supervisor::job::Spec;

use crate::seed::summaries;

const TEXTURE_SIZE: u32 = 256;

/// The role that writes a table.
pub(super) fn owner(table: Table) -> Role {
    match table {
        Table::Mesh | Table::Surface | Table::Splats | Table::View(_) => Role::Prepare,
        Table::Texture
        | Table::Colours
        | Table::Layer(_)
        | Table::Rejected(_)
        | Table::Refined
        | Table::Pipelines => Role::Bake,
        Table::Glb
        | Table::Preview
        | Table::Coverage
        | Table::Residual
        | Table::Provenance
        | Table::Picture(_)
        | Table::Material
        | Table::Gallery => Role::Encode,
    }
}

/// The smallest size of a table: one triangle, one pixel.
pub fn least(table: Table) -> u64 {
    match table {
        Table::Mesh => 64 + 3 * (12 + 12 + 8 + 4) + 12,
        Table::Surface => 64 + 3 * 12 + 12,
        Table::View(_) => view(0, false).byte_len(),
        Table::Splats => SplatScene::BYTES[0],
        Table::Texture => 64 + u64::from(TEXTURE_SIZE).pow(2) * 5,
        Table::Layer(_) => 64 + u64::from(TEXTURE_SIZE).pow(2) * 4,
        Table::Colours => 64 + 3 * 4,
        Table::Refined => Refined::byte_len_of(1),
        Table::Pipelines | Table::Gallery => 1,
        Table::Glb => 12,
        Table::Picture(_) | Table::Material => 12,
        Table::Preview
        | Table::Coverage
        | Table::Residual
        | Table::Provenance
        | Table::Rejected(_) => 33,
    }
}

/// A valid view of one pixel.
pub(super) fn view(index: u32, holdout: bool) -> View {
    View {
        index,
        width: 1,
        height: 1,
        has_alpha: true,
        holdout,
        pixels: vec![[0; 4]],
        ..View::default()
    }
}

/// A summary of the role's kind.
pub(super) fn done(role: Role, fit: u8, holdout: u8) -> Done {
    let mut done = summaries()
        .into_iter()
        .nth(role as usize)
        .expect("one of each");
    match &mut done {
        Done::Prepare(summary) => {
            (summary.views, summary.holdout_views) = (fit.into(), holdout.into());
        }
        Done::Bake(summary) => "adapter".clone_into(&mut summary.adapter.name),
        Done::Encode(_) | Done::Plan(_) | Done::Compare(_) => {}
    }
    done
}

/// A job as the command line makes it, with or without a preview; made once.
pub(super) fn spec(preview: bool) -> &'static Spec {
    static SPECS: [OnceLock<Box<Spec>>; 2] = [OnceLock::new(), OnceLock::new()];
    SPECS[usize::from(preview)].get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["mesh.glb", "transforms.json"] {
            std::fs::write(path(name), b"{}").expect("a file");
        }
        let mut arguments = vec!["kiln".to_owned(), "bake".to_owned(), path("mesh.glb")];
        let mut flag = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
        flag("views", &path("transforms.json"));
        flag("output", &path("out.glb"));
        flag("texture-size", &TEXTURE_SIZE.to_string());
        flag("device", "cpu");
        flag("baker", "/kiln-baker");
        flag("crash-folder", "none");
        if preview {
            flag("preview", &path("out.png"));
        }
        match cli::parse(arguments.into_iter().map(Into::into)) {
            Ok(Command::Bake { spec, .. }) => spec,
            other => panic!("{other:?}"),
        }
    })
}
