//! The document against the routes that are served.

use std::collections::BTreeSet;

use serde_json::Value;

use super::openapi::document;
use super::routes;
use crate::options::JobOptions;

#[test]
fn the_document_has_every_method_of_every_route_and_no_other() {
    let document = document(None);
    let routes = routes();
    let paths = document["paths"].as_object().expect("paths");
    assert_eq!(paths.len(), routes.len(), "each path once");
    for route in routes {
        // axum says which methods have a handler in this way alone: `get: None`, or `get: BoxedHandler(..)`.
        let served = format!("{:?}", route.methods);
        let methods = [
            "get", "head", "delete", "options", "patch", "post", "put", "trace",
        ];
        let served: BTreeSet<&str> = methods
            .into_iter()
            .filter(|method| !served.contains(&format!(" {method}: None")))
            .collect();
        let told = paths[route.path].as_object().expect("methods");
        // HEAD is what GET answers, without its body.
        let told: BTreeSet<&str> = (told.keys().map(String::as_str))
            .filter(|key| !["parameters", "head"].contains(key))
            .collect();
        assert_eq!(served, told, "{}", route.path);
    }
}

#[test]
fn the_document_names_the_place_that_browsers_know() {
    let public = "https://kiln.example.org".parse().expect("an origin");
    assert_eq!(
        document(Some(&public))["servers"][0]["url"],
        "https://kiln.example.org"
    );
    assert_eq!(document(None)["servers"][0]["url"], "/");
}

/// Each example is what its schema says: of a spec that is read as a request's, and of a job that has each key.
#[test]
fn examples_are_what_they_stand_for() {
    let document = document(None);
    let content = &document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"];
    let examples = content["application/json"]["examples"]
        .as_object()
        .expect("some");
    assert!(examples.len() >= 2);
    for (name, example) in examples {
        let text = example["value"].to_string();
        if let Err(wrong) = JobOptions::read(text.as_bytes(), true) {
            panic!("{name}: {wrong:?}");
        }
    }
    let schemas = &document["components"]["schemas"];
    for name in ["Job", "Problem"] {
        let example = schemas[name]["examples"][0].as_object().expect("one");
        let schema = &schemas[name];
        for key in schema["required"].as_array().expect("keys") {
            assert!(
                example.contains_key(key.as_str().expect("text")),
                "{name}: {key}"
            );
        }
        for key in example.keys() {
            assert!(schema["properties"].get(key).is_some(), "{name}: {key}");
        }
    }
}

#[test]
fn what_the_document_refers_to_is_there() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(keys) => {
                for (key, value) in keys {
                    match (key.as_str(), value) {
                        ("$ref", Value::String(place)) => drop(found.insert(place.clone())),
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document(None);
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert_eq!(found.len(), 9, "{found:?}");
    for place in found {
        assert!(document.pointer(&place[1..]).is_some(), "{place}");
    }
}
