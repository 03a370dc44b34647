//! Parses every shader and compares bindings, entry points, workgroup sizes and structures with the host's tables.

use naga::{AddressSpace, ImageClass, Module, ScalarKind, StorageAccess, TypeInner};
use proto::job::Blend;

use crate::bake::gpu::layout::{Patches, structures};
use crate::bake::gpu::shaders::{ALL, Kind, Over, ROWS, Shader, TALLY};

fn parse(shader: &Shader) -> Module {
    parse_for(shader, Patches::Listed)
}

fn parse_for(shader: &Shader, patches: Patches) -> Module {
    let source = shader.source(4, Blend::Linear, patches);
    naga::front::wgsl::parse_str(&source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source)))
}

/// Names and kinds of a group's bindings, in order.
fn bindings(module: &Module, group: u32) -> Vec<(String, Kind)> {
    let mut found: Vec<(u32, String, Kind)> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| {
            let place = variable
                .binding
                .as_ref()
                .filter(|place| place.group == group)?;
            let kind = match (variable.space, &module.types[variable.ty].inner) {
                (AddressSpace::Uniform, _) => Kind::Uniform,
                (AddressSpace::Storage { access }, _) if access.contains(StorageAccess::STORE) => {
                    Kind::Write
                }
                (AddressSpace::Storage { .. }, _) => Kind::Read,
                (
                    _,
                    TypeInner::Image {
                        class:
                            ImageClass::Sampled {
                                kind: ScalarKind::Uint,
                                ..
                            },
                        ..
                    },
                ) => Kind::Ids,
                (space, inner) => panic!("{space:?} {inner:?} is bound"),
            };
            Some((
                place.binding,
                variable.name.clone().unwrap_or_default(),
                kind,
            ))
        })
        .collect();
    found.sort_by_key(|(binding, ..)| *binding);
    let numbers: Vec<u32> = found.iter().map(|(binding, ..)| *binding).collect();
    assert_eq!(
        numbers,
        (0..found.len() as u32).collect::<Vec<_>>(),
        "bindings are numbered without gaps"
    );
    found
        .into_iter()
        .map(|(_, name, kind)| (name, kind))
        .collect()
}

fn owned(table: &[(&str, Kind)]) -> Vec<(String, Kind)> {
    table
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), *kind))
        .collect()
}

#[test]
fn bindings_and_entry_points_are_as_the_tables_say() {
    for (shader, patches) in ALL
        .iter()
        .flat_map(|shader| Patches::BOTH.map(|patches| (shader, patches)))
    {
        let module = parse_for(shader, patches);
        let draws = shader
            .entries
            .iter()
            .all(|(_, over)| *over == Over::Graphics);
        let (tally, own) = if draws { (None, 0) } else { (Some(0), 1) };
        assert_eq!(
            bindings(&module, own),
            owned(shader.bindings),
            "{}",
            shader.name
        );
        if let Some(tally) = tally {
            assert_eq!(bindings(&module, tally), owned(TALLY), "{}", shader.name);
        }
        let rows = if shader.is_over_rows() {
            owned(ROWS)
        } else {
            Vec::new()
        };
        assert_eq!(bindings(&module, own + 1), rows, "{}", shader.name);
        let entries: Vec<_> = module
            .entry_points
            .iter()
            .map(|entry| (entry.name.as_str(), entry.workgroup_size))
            .collect();
        let wanted: Vec<_> = shader
            .entries
            .iter()
            .map(|(entry, over)| (*entry, over.workgroup(patches)))
            .collect();
        assert_eq!(entries, wanted, "{}", shader.name);
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
    let storage = |bindings: &[(&str, Kind)]| {
        bindings
            .iter()
            .filter(|(_, kind)| matches!(kind, Kind::Read | Kind::Write))
            .count()
    };
    let needed = ALL.iter().map(|shader| {
        let rows = if shader.is_over_rows() { ROWS } else { &[] };
        storage(shader.bindings) + storage(TALLY) + storage(rows)
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
