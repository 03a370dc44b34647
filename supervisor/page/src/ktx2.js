// KTX2 textures (Basis Universal) → what the device takes: three's loader, with its worker and the transcoder as files of the page,
// since the page's policy lets no script come from a blob.

import { KTX2Loader } from "three/addons/loaders/KTX2Loader.js";

/** Set by build.mjs: addresses of the two files. */
const [worker, transcoder] = /** @type {[string, string]} */ ([__BASIS_WORKER__, __BASIS_TRANSCODER__]);

/** The one script that a worker may run. */
const policy = globalThis.trustedTypes?.createPolicy("kiln-worker", { createScriptURL: () => worker });

export class Textures extends KTX2Loader {
    /** In place of three's own, which makes the worker's script of text. */
    init() {
        this.transcoderPending ??= (async () => {
            const response = await fetch(transcoder);
            if (!response.ok) throw new Error(`the decoder of KTX2 textures is not there: status ${response.status}`);
            const binary = await response.arrayBuffer();
            this.workerPool.setWorkerCreator(() => {
                const made = new Worker(policy?.createScriptURL("") ?? worker);
                const copy = binary.slice(0);
                made.postMessage({ type: "init", config: this.workerConfig, transcoderBinary: copy }, [copy]);
                return made;
            });
        })();
        return this.transcoderPending;
    }
}
