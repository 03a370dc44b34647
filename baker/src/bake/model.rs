//! The linear model: scene and atlas of the texture, and rows. A row says which texels a pixel is a weighted sum of.
//!
//! | module | input → output |
//! |---|---|
//! | `scene` | mesh → positions in a ball of radius 1, texel coordinates |
//! | `atlas` | scene → triangle of each texel, links to its neighbours on the surface, seams |
//! | `normals` | points, triangles → normals of the points |
//! | `hierarchy` | triangles → where a line meets them, and the nearest point on them |
//! | `raster` | scene, camera → the triangle that each sample hits |
//! | `rows` | the linear model: a pixel is a weighted sum of texels |
//! | `links` | which neighbouring texels are of one surface |
//! | `subset` | rows → the subset by which λ is found where there are very many |
//! | `footprint` | samples, picture → rows |
//! | `plots` | rows pixel by pixel → rows by squares of the texture |
//! | `row_cache` | views → their rows, stored or built again for each pass |
//! | `colour` | bytes ↔ the space of the fit |
//! | `vec3` | products of vectors and matrices of three |

pub mod atlas;
pub mod colour;
pub mod footprint;
pub(crate) mod hierarchy;
pub mod links;
pub(crate) mod normals;
pub(crate) mod plots;
pub mod raster;
pub(crate) mod row_cache;
pub mod rows;
pub mod scene;
pub mod subset;
pub(crate) mod vec3;
