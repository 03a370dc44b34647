//! The bake role: turns a mesh and posed views into a texture, on a GPU or on the processor.
//!
//! ```text
//!   mesh ──────▶ model: scene, atlas ─┐
//!   job ───────▶ adapter, window ─────┤
//!   views ─────▶ intake: cameras, exposures, masks, decimation ─▶ rows, or views and subdomains
//!                                     └─▶ fit_texture: weights, λ, solution, seams ─▶ finish: texture, report
//! ```
//!
//! | module | input → output |
//! |---|---|
//! | `role` | tables of the supervisor → a bake → tables for the supervisor |
//! | `pipeline` | a bake from its first view to its report |
//! | `warm` | what was asked for → an open adapter, before any data comes |
//! | `opening` | that adapter, the views seen so far, the mesh → the adapter of the job |
//! | `plan` | quality → taps, rounds, smoothness |
//! | `scene` | mesh → positions in a ball of radius 1, texel coordinates |
//! | `window` | texture → the part of it that an adapter works on |
//! | `atlas` | scene → triangle of each texel, links to its neighbours on the surface, seams |
//! | `intake` | views, early, with the mesh or once more → rows on the adapter, or views for the subdomains |
//! | `surface` | views → views without the pixels that show other surfaces than the simplified mesh |
//! | `refine` | views → views whose cameras and exposures agree with the mesh and with each other |
//! | `decimate` | masks of all views → decimation: which pixels get no row, for redundancy or lack of memory |
//! | `pixel_mask` | decimation → pixel masks, and views without the masked pixels |
//! | `ahead` | items that worker threads prepare → one consumer, in order |
//! | `vec3` | products of vectors and matrices of three |
//! | `raster` | scene, camera → the triangle that each sample hits |
//! | `rows` | the linear model: a pixel is a weighted sum of texels |
//! | `links` | which neighbouring texels are of one surface |
//! | `subset` | rows → the subset by which λ is found where there are very many |
//! | `footprint` | samples, picture → rows |
//! | `row_cache` | views → their rows, stored or built again for each pass |
//! | `backend` | what the fit asks of an adapter: averages, residuals, weights, solutions |
//! | `colour` | bytes ↔ the space of the fit |
//! | `normal` | rows, weights → products with the normal matrix, conjugate gradients |
//! | `multilevel` | residuals → preconditioner on several scales, where links alone hold the texels |
//! | `native`, `gpu` | the backend on the processor, and on a GPU with a shader for each stage |
//! | `pull_push` | texels with weights → a colour for every texel |
//! | `fill` | averaged texels → start values; unseen texels take the colours of surface neighbours |
//! | `fit` | start values → texels that reproduce the views: reweighted least squares over any backend |
//! | `fit_context` | what all textures of a job share |
//! | `subdomains` | subdomains: fits the texture band by band where the rows do not fit the memory |
//! | `seams` | texels → gutters that continue the charts, both sides of a seam alike at every mip level |
//! | `fit_texture` | views → texels with mended seams: what every texture of a job goes through |
//! | `view_source` | view source: the supervisor → views, again on request; textures of channels → the supervisor |
//! | `layers` | views, read again → textures of their other channels, by the same fit |
//! | `rejected` | views, fitted texels → pictures of what the fit rejected of each view |
//! | `gutter` | texels → 8 bits, and the provenance of each |
//! | `maps` | observed weights, residuals → coverage and deviation of each texel |
//! | `finish`, `summary` | fitted texels → the texture, and the report |
//! | `error` | failures as the user reads them |
//! | `vertices` | mesh and views → vertex colours, without a texture |
//! | `dry_run` | mesh and views → forecast of memory and time |

mod ahead;
pub mod atlas;
pub mod backend;
pub mod colour;
mod decimate;
pub mod dry_run;
mod error;
pub mod fill;
mod finish;
pub mod fit;
mod fit_context;
mod fit_texture;
#[cfg(test)]
mod fixture;
pub mod footprint;
pub mod gpu;
pub mod gutter;
mod intake;
mod layers;
pub mod links;
mod maps;
mod multilevel;
pub mod native;
mod normal;
mod opening;
mod pipeline;
pub mod pixel_mask;
pub mod plan;
pub mod pull_push;
pub mod raster;
mod refine;
mod rejected;
mod role;
mod row_cache;
pub mod rows;
pub mod scene;
pub mod seams;
mod subdomains;
pub mod subset;
mod summary;
pub mod surface;
mod vec3;
pub mod vertices;
mod view_source;
pub mod warm;
pub mod window;

pub use finish::Baked;
pub use pipeline::bake;
pub use role::run;
pub use view_source::{HandedViews, Unwrapped, ViewSource};

#[cfg(test)]
mod tests;
