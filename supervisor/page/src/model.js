// A GLB → its meshes, dressed in one of several surfaces: what the file says, lit or not; the shape alone; the maps of the bake.
//
// Each mesh keeps its own textures: a GLB of several pages has a mesh and a material for each. A map is one picture of the whole
// atlas, of which a page shows its own square.

import {
    CanvasTexture, ClampToEdgeWrapping, DoubleSide, Group, LinearFilter, LinearMipmapLinearFilter, Mesh, MeshBasicMaterial,
    MeshLambertMaterial, NearestFilter, SRGBColorSpace, Texture,
} from "three"; // prettier-ignore
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";

/** @typedef {"colour" | "lit" | "clay" | "wire" | "checker" | "coverage" | "residual" | "provenance"} Surface */
/**
 * @typedef {object} Part
 * @property {Mesh} mesh
 * @property {any} lit the material of the file
 * @property {MeshBasicMaterial} plain shows one texture as it is
 * @property {[number, number]} place column and row of its page in the atlas
 * @property {Map<string, Texture>} maps by the surface that shows them
 */

/** Slots of a material, by the words for the pictures in them. */
const SLOTS = [["Colour", "map"], ["Occlusion, roughness, metallic", "roughnessMap", "aoMap"], ["Normal", "normalMap"], ["Emission", "emissiveMap"]];

export class Model {
    /** @type {Part[]} */
    #parts = [];
    #clay = new MeshLambertMaterial({ color: 0xb8b4ad, side: DoubleSide, toneMapped: false });
    #wires = new Group();
    /** @type {Texture | null} */
    #checker = null;

    /**
     * @param {ArrayBuffer} glb @param {number} pages textures that the atlas was cut into
     * @param {import("three").WebGLRenderer} renderer says which compressed textures it takes
     */
    static async read(glb, pages, renderer) {
        return new Model(await scene(glb, renderer), pages, renderer.capabilities.getMaxAnisotropy());
    }

    /** @param {Group} scene @param {number} pages @param {number} anisotropy */
    constructor(scene, pages, anisotropy) {
        this.scene = scene;
        /** Pages along an edge of the atlas. */
        this.side = Math.sqrt(pages);
        scene.updateMatrixWorld(true);
        scene.traverse((object) => object instanceof Mesh && this.#add(object, anisotropy));
        scene.add(this.#wires);
        this.dress("colour");
    }

    /** @param {Mesh} mesh @param {number} anisotropy */
    #add(mesh, anisotropy) {
        const lit = /** @type {any} */ (mesh.material);
        for (const slot of SLOTS.flatMap(([, ...slots]) => slots)) if (lit[slot]) lit[slot].anisotropy = anisotropy;
        // The UDIM tile of a page: 1001 + column + 10 · row.
        const tile = Number(/^baked\.1(\d{3})$/.exec(lit.name)?.[1] ?? 1) - 1;
        const place = /** @type {[number, number]} */ ([tile % 10, Math.floor(tile / 10)]);
        const plain = new MeshBasicMaterial({ side: DoubleSide, toneMapped: false });
        this.#parts.push({ mesh, lit, plain, place, maps: new Map(lit.map ? [["colour", lit.map]] : []) });
    }

    /** The pictures of the file, each with the pages that have one. @returns {{title: string, tiles: {texture: Texture, place: [number, number]}[]}[]} */
    get textures() {
        const all = SLOTS.map(([title, ...slots]) => {
            const tiles = this.#parts.map(({ lit, place }) => ({ texture: slots.map((slot) => lit[slot]).find(Boolean), place }));
            return { title, tiles: tiles.filter(({ texture }) => texture) };
        });
        return all.filter(({ tiles }) => tiles.length > 0);
    }

    /** A picture in the layout of the whole atlas. @param {Surface} name @param {Blob} picture */
    async addMap(name, picture) {
        const texture = new Texture(await createImageBitmap(picture, { premultiplyAlpha: "none", colorSpaceConversion: "none" }));
        // The first row of a GLB's texture is at v = 0.
        texture.flipY = false;
        texture.colorSpace = SRGBColorSpace;
        [texture.wrapS, texture.wrapT] = [ClampToEdgeWrapping, ClampToEdgeWrapping];
        [texture.minFilter, texture.magFilter] = [LinearFilter, NearestFilter];
        texture.generateMipmaps = false;
        for (const part of this.#parts) {
            // Clones share the picture on the device.
            const own = texture.clone();
            own.repeat.set(1 / this.side, 1 / this.side);
            own.offset.set(part.place[0] / this.side, part.place[1] / this.side);
            own.needsUpdate = true;
            part.maps.set(name, own);
        }
    }

    /** @param {Surface} surface */
    dress(surface) {
        if (surface === "wire") this.#addWires();
        this.#wires.visible = surface === "wire";
        if (surface === "checker") this.#checker ??= checker();
        for (const { mesh, lit, plain, maps } of this.#parts) {
            const map = surface === "checker" ? this.#checker : (maps.get(surface === "wire" ? "colour" : surface) ?? null);
            const coloured = Boolean(mesh.geometry.attributes.color) && !map;
            if (plain.map !== map || plain.vertexColors !== coloured) plain.needsUpdate = true;
            [plain.map, plain.vertexColors] = [map, coloured];
            mesh.material = surface === "clay" ? this.#clay : surface === "lit" ? lit : plain;
        }
    }

    #addWires() {
        if (this.#wires.children.length > 0) return;
        const material = new MeshBasicMaterial({ color: 0x1672e0, wireframe: true, toneMapped: false });
        for (const { mesh, plain } of this.#parts) {
            const wire = new Mesh(mesh.geometry, material);
            wire.applyMatrix4(mesh.matrixWorld);
            this.#wires.add(wire);
            // Lines lie on the surface and would flicker with it.
            [plain.polygonOffset, plain.polygonOffsetFactor, plain.polygonOffsetUnits] = [true, 1, 1];
        }
    }

    dispose() {
        this.#checker?.dispose();
        for (const { mesh, lit, plain, maps } of this.#parts) {
            mesh.geometry.dispose();
            for (const texture of maps.values()) texture.dispose();
            for (const slot of SLOTS.flatMap(([, ...slots]) => slots)) lit[slot]?.dispose();
            lit.dispose();
            plain.dispose();
        }
    }
}

/** With the decoders that the file needs. @param {ArrayBuffer} glb @param {import("three").WebGLRenderer} renderer @returns {Promise<any>} */
async function scene(glb, renderer) {
    const loader = new GLTFLoader();
    const needs = extensions(glb);
    if (needs.includes("EXT_meshopt_compression")) {
        const { MeshoptDecoder } = await import("three/addons/libs/meshopt_decoder.module.js");
        loader.setMeshoptDecoder(MeshoptDecoder);
    }
    let textures = null;
    if (needs.includes("KHR_texture_basisu")) {
        const { Textures } = await import("./ktx2.js");
        textures = new Textures().detectSupport(renderer);
        loader.setKTX2Loader(textures);
    }
    try {
        return (await loader.parseAsync(glb, "")).scene;
    } finally {
        textures?.dispose();
    }
}

/** @param {ArrayBuffer} glb @returns {string[]} none of a broken file, of which the loader says what is wrong */
function extensions(glb) {
    try {
        const length = new DataView(glb).getUint32(12, true);
        return JSON.parse(new TextDecoder().decode(new Uint8Array(glb, 20, length))).extensionsUsed ?? [];
    } catch {
        return [];
    }
}

/** Squares whose colour tells where in the texture they lie: u in red, v in green. */
function checker() {
    const [edge, cells] = [1024, 32];
    const canvas = new OffscreenCanvas(edge, edge);
    const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const step = edge / cells;
    for (let row = 0; row < cells; row++) {
        for (let column = 0; column < cells; column++) {
            const dark = (row + column) % 2 ? 0.55 : 1;
            const [u, v] = [(column + 0.5) / cells, (row + 0.5) / cells];
            context.fillStyle = `rgb(${255 * dark * (0.25 + 0.75 * u)} ${255 * dark * (0.25 + 0.75 * v)} ${170 * dark})`;
            context.fillRect(column * step, row * step, step, step);
        }
    }
    const texture = new CanvasTexture(/** @type {any} */ (canvas));
    texture.colorSpace = SRGBColorSpace;
    texture.minFilter = LinearMipmapLinearFilter;
    texture.flipY = false;
    return texture;
}
