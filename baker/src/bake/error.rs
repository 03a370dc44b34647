//! Failures of a bake, as the user reads them.

use proto::message::{Code, Failure};

use crate::bake::solve::backend::BackendError;

/// An adapter's failure.
pub(super) fn failure(error: BackendError) -> Failure {
    let code = match error {
        BackendError::OutOfMemory(_) => Code::OutOfDeviceMemory,
        BackendError::Lost(_) => Code::GpuDeviceLost,
        BackendError::Shader(_) => Code::ShaderRejected,
        BackendError::Incomplete(_) => Code::IncompleteOutput,
    };
    Failure {
        code,
        message: error.to_string(),
        hint: "try --device cpu".to_owned(),
    }
}

/// No view sees anything.
pub(super) fn unseen() -> Failure {
    Failure {
        code: Code::InvalidAsset,
        message: "no view shows the mesh: not one pixel lies wholly on it and is opaque".to_owned(),
        hint: "check that mesh and transforms share one coordinate frame, and that alpha is 255 on the object".to_owned(),
    }
}
