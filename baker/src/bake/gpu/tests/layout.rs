//! Parses every shader and compares bindings, entry points, workgroup sizes and structures with the host's tables.

use naga::{AddressSpace, ImageClass, Module, ScalarKind, ShaderStage, StorageAccess, TypeInner};
use proto::job::Blend;

use crate::bake::gpu::layout::{Patches, structures};
use crate::bake::gpu::shaders::{ALL, Kind, Shader, rows, tally};

fn parse(shader: &Shader) -> Module {
    parse_for(shader, Patches::Listed)
}

fn parse_for(shader: &Shader, patches: Patches) -> Module {
    let source = shader.source(4, Blend::Linear, patches);
    naga::front::wgsl::parse_str(&source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source)))
}

/// The kinds of a group's bindings, in order.
fn bindings(module: &Module, group: u32) -> Vec<Kind> {
    let kind = |variable: &naga::GlobalVariable| match (
        variable.space,
        &module.types[variable.ty].inner,
    ) {
        (AddressSpace::Uniform, _) => Kind::Uniform,
        (AddressSpace::Storage { access }, _) if access.contains(StorageAccess::STORE) => {
            Kind::Write
        }
        (AddressSpace::Storage { .. }, _) => Kind::Read,
        (_, TypeInner::Image { class, .. }) => {
            let kind = ScalarKind::Uint;
            assert_eq!(*class, ImageClass::Sampled { kind, multi: false });
            Kind::Ids
        }
        (space, inner) => panic!("{space:?} {inner:?} is bound"),
    };
    let mut found: Vec<(u32, Kind)> = (module.global_variables.iter())
        .filter_map(|(_, variable)| {
            let place = variable.binding.as_ref()?;
            (place.group == group).then(|| (place.binding, kind(variable)))
        })
        .collect();
    found.sort_by_key(|(binding, _)| *binding);
    assert!(
        (0..)
            .zip(&found)
            .all(|(number, (binding, _))| number == *binding),
        "bindings are numbered without gaps"
    );
    found.into_iter().map(|(_, kind)| kind).collect()
}

#[test]
fn bindings_and_entry_points_are_as_they_are_read() {
    for (shader, patches) in ALL
        .iter()
        .flat_map(|shader| Patches::BOTH.map(|patches| (shader, patches)))
    {
        let module = parse_for(shader, patches);
        let computed: Vec<&str> = (module.entry_points.iter())
            .filter(|entry| entry.stage == ShaderStage::Compute)
            .map(|entry| entry.name.as_str())
            .collect();
        let entries = shader.entries();
        let read: Vec<&str> = entries.iter().map(|entry| entry.name).collect();
        assert_eq!(computed, read, "{}", shader.name);
        let own = u32::from(!computed.is_empty());
        assert_eq!(bindings(&module, own), shader.bindings(), "{}", shader.name);
        if own == 1 {
            assert_eq!(bindings(&module, 0), tally(), "{}", shader.name);
        }
        let of_rows = if shader.is_over_rows() {
            rows()
        } else {
            Vec::new()
        };
        assert_eq!(bindings(&module, own + 1), of_rows, "{}", shader.name);
    }
}

#[test]
fn every_shader_is_valid_for_every_number_of_taps() {
    for shader in ALL {
        for (taps, patches) in (1..=6).flat_map(|taps| Patches::BOTH.map(|patches| (taps, patches)))
        {
            let source = shader.source(taps, Blend::Srgb, patches);
            let module =
                naga::front::wgsl::parse_str(&source).expect("the same source parsed before");
            let mut validator = naga::valid::Validator::new(
                naga::valid::ValidationFlags::all(),
                naga::valid::Capabilities::SHADER_INT64
                    | naga::valid::Capabilities::SHADER_INT64_ATOMIC_MIN_MAX,
            );
            if let Err(error) = validator.validate(&module) {
                panic!(
                    "{} with {taps} taps: {}",
                    shader.name,
                    error.emit_to_string(&source)
                );
            }
        }
    }
}

#[test]
fn doctor_asks_for_as_many_buffers_as_the_largest_stage_binds() {
    let storage = |bindings: &[Kind]| {
        let is_storage = |kind: &&Kind| matches!(kind, Kind::Read | Kind::Write);
        bindings.iter().filter(is_storage).count()
    };
    let needed = ALL.iter().map(|shader| {
        let of_rows = if shader.is_over_rows() {
            rows()
        } else {
            Vec::new()
        };
        storage(&shader.bindings()) + storage(&tally()) + storage(&of_rows)
    });
    assert_eq!(needed.max(), Some(crate::doctor::STORAGE_BUFFERS as usize));
}

/// Fields with their offsets, and the size.
type Shape = (Vec<(String, u32)>, u32);

fn shape_in(module: &Module, name: &str) -> Option<Shape> {
    module
        .types
        .iter()
        .find_map(|(_, of)| match (&of.name, &of.inner) {
            (Some(found), TypeInner::Struct { members, span }) if found == name => {
                let fields = members
                    .iter()
                    .map(|m| (m.name.clone().unwrap_or_default(), m.offset))
                    .collect();
                Some((fields, *span))
            }
            _ => None,
        })
}

#[test]
fn structures_have_the_same_fields_on_both_sides() {
    let modules: Vec<Module> = ALL.iter().map(|shader| parse(shader)).collect();
    for (name, fields, size) in structures() {
        let found: Vec<Shape> = modules
            .iter()
            .filter_map(|module| shape_in(module, name))
            .collect();
        assert!(!found.is_empty(), "no shader has {name}");
        for shape in found {
            assert_eq!(shape, (fields.clone(), size), "{name}");
        }
    }
}
