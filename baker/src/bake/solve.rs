//! Rows and observations → texels: robust least squares with a multilevel preconditioner, on any backend, in subdomains
//! where the rows do not fit the memory.
//!
//! | module | input → output |
//! |---|---|
//! | `native` | the backend on the processor; [`super::gpu`] is the one on a GPU |
//! | `backend` | what the fit asks of an adapter: averages, residuals, weights, solutions |
//! | `normal` | rows, weights → products with the normal matrix, conjugate gradients |
//! | `multilevel` | residuals → preconditioner on several scales, where links alone hold the texels |
//! | `pull_push` | texels with weights → a colour for every texel |
//! | `fill` | averaged texels → start values; unseen texels take the colours of surface neighbours |
//! | `fit` | start values → texels that reproduce the views: reweighted least squares over any backend |
//! | `fit_context` | what all textures of a job share |
//! | `fit_texture` | views → texels with mended seams: what every texture of a job goes through |
//! | `subdomains` | subdomains: fits the texture band by band where the rows do not fit the memory |
//! | `layers` | views, read again → textures of their other channels, by the same fit |

pub mod backend;
pub mod fill;
pub mod fit;
pub(crate) mod fit_context;
pub(crate) mod fit_texture;
pub(crate) mod layers;
pub(crate) mod multilevel;
pub mod native;
pub(crate) mod normal;
pub mod pull_push;
pub(crate) mod subdomains;
