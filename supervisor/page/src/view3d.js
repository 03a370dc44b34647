// A textured GLB → a 3D view of it on a canvas: free, or from exactly the camera of a picture. Draws only when something changed.

import {
    AmbientLight, Box3, CanvasTexture, ClampToEdgeWrapping, Color, DirectionalLight, DoubleSide, Group, LinearFilter,
    LinearMipmapLinearFilter, Mesh, MeshBasicMaterial, MeshLambertMaterial, NearestFilter, PerspectiveCamera, Scene, Sphere,
    SRGBColorSpace, Texture, Vector3, WebGLRenderer,
} from "three"; // prettier-ignore
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";
import { place, projection } from "./camera.js";

/** @typedef {"colour" | "clay" | "wire" | "checker" | "coverage" | "residual"} Surface */

const FOV = 35;
/** Radians of a turn by one key. */
const TURN = Math.PI / 24;

export class View3D {
    /** Told after each drawing: where the picture would lie, while a view is shown. @type {(rect: import("./camera.js").Rect | null) => void} */
    onplace = () => {};
    /** @type {import("./inputs.js").Camera | null} */
    #view = null;
    #look = { zoom: 1, x: 0, y: 0 };
    #frame = 0;
    /** @type {Map<string, Texture>} */
    #maps = new Map();
    /** @type {Mesh[]} */
    #meshes = [];
    /** @type {Map<Mesh, MeshBasicMaterial>} */
    #own = new Map();
    #wires = new Group();
    #clay = new MeshLambertMaterial({ color: 0xb8b4ad, side: DoubleSide });
    #scene = new Scene();
    #sphere = new Sphere(new Vector3(), 1);
    #camera = new PerspectiveCamera(FOV, 1, 0.1, 10);
    #size = /** @type {[number, number]} */ ([1, 1]);

    /** @param {HTMLCanvasElement} canvas @param {ArrayBuffer} glb @param {[number, number, number]} up */
    static async open(canvas, glb, up) {
        const view = new View3D(canvas, up);
        await view.#load(glb);
        return view;
    }

    /** @param {HTMLCanvasElement} canvas @param {[number, number, number]} up */
    constructor(canvas, up) {
        this.canvas = canvas;
        this.#camera.up.fromArray(up);
        this.renderer = new WebGLRenderer({ canvas, antialias: true, alpha: true });
        this.renderer.setClearColor(new Color(0), 0);
        this.controls = new OrbitControls(this.#camera, canvas);
        this.controls.enableDamping = false;
        this.controls.addEventListener("change", () => this.draw());
        canvas.addEventListener("webglcontextrestored", () => this.draw());
        const light = new DirectionalLight(0xffffff, 2.2);
        light.position.set(0.3, 0.5, 1);
        this.#camera.add(light);
        this.#scene.add(this.#camera, new AmbientLight(0xffffff, 0.9), this.#wires);
        this.resize = new ResizeObserver(([entry]) => this.#resized(entry.contentRect.width, entry.contentRect.height));
        this.resize.observe(/** @type {Element} */ (canvas.parentElement));
    }

    /** @param {ArrayBuffer} glb */
    async #load(glb) {
        const { scene } = await new GLTFLoader().parseAsync(glb, "");
        scene.updateMatrixWorld(true);
        scene.traverse((object) => {
            if (!(object instanceof Mesh)) return;
            const { map } = /** @type {any} */ (object.material);
            if (map) map.anisotropy = this.renderer.capabilities.getMaxAnisotropy();
            if (map) this.#maps.set("colour", map);
            const vertexColors = Boolean(object.geometry.attributes.color);
            const own = new MeshBasicMaterial({ map, vertexColors, side: DoubleSide, toneMapped: false });
            object.material = own;
            this.#own.set(object, own);
            this.#meshes.push(object);
        });
        this.#scene.add(scene);
        new Box3().setFromObject(scene).getBoundingSphere(this.#sphere);
        this.fit();
    }

    /** The texture as it lies in the file. @returns {CanvasImageSource | null} */
    get texture() {
        return /** @type {any} */ (this.#maps.get("colour")?.image) ?? null;
    }

    /** A picture in the texture's own layout. @param {Surface} name @param {Blob} picture */
    async addMap(name, picture) {
        const image = await createImageBitmap(picture, { premultiplyAlpha: "none", colorSpaceConversion: "none" });
        const texture = new Texture(image);
        // The first row of a GLB's texture is at v = 0.
        texture.flipY = false;
        texture.colorSpace = SRGBColorSpace;
        [texture.wrapS, texture.wrapT] = [ClampToEdgeWrapping, ClampToEdgeWrapping];
        [texture.minFilter, texture.magFilter] = [LinearFilter, NearestFilter];
        texture.generateMipmaps = false;
        texture.needsUpdate = true;
        this.#maps.set(name, texture);
    }

    /** @param {Surface} surface */
    setSurface(surface) {
        if (surface === "checker" && !this.#maps.has("checker")) this.#maps.set("checker", checker());
        if (surface === "wire" && this.#wires.children.length === 0) this.#addWires();
        this.#wires.visible = surface === "wire";
        const map = this.#maps.get(surface === "wire" ? "colour" : surface) ?? null;
        for (const mesh of this.#meshes) {
            const own = /** @type {MeshBasicMaterial} */ (this.#own.get(mesh));
            mesh.material = surface === "clay" ? this.#clay : own;
            const coloured = Boolean(mesh.geometry.attributes.color) && !map;
            if (own.map !== map || own.vertexColors !== coloured) own.needsUpdate = true;
            [own.map, own.vertexColors] = [map, coloured];
        }
        this.draw();
    }

    #addWires() {
        const material = new MeshBasicMaterial({ color: 0x1672e0, wireframe: true, toneMapped: false });
        for (const mesh of this.#meshes) {
            const wire = new Mesh(mesh.geometry, material);
            wire.applyMatrix4(mesh.matrixWorld);
            this.#wires.add(wire);
            const own = /** @type {MeshBasicMaterial} */ (this.#own.get(mesh));
            // Lines lie on the surface and would flicker with it.
            [own.polygonOffset, own.polygonOffsetFactor, own.polygonOffsetUnits] = [true, 1, 1];
        }
    }

    /** All of it in sight, from the front. */
    fit() {
        this.leave();
        const { center, radius } = this.#sphere;
        const up = this.#camera.up;
        const side = new Vector3(Math.abs(up.z) > 0.5 ? 0 : 0.5, Math.abs(up.z) > 0.5 ? -1 : 0, Math.abs(up.z) > 0.5 ? 0 : 1);
        const from = side.addScaledVector(up, 0.35).normalize();
        const aspect = this.#size[0] / this.#size[1];
        const distance = radius / Math.sin((Math.min(1, aspect) * FOV * Math.PI) / 360);
        this.#camera.position.copy(center).addScaledVector(from, distance * 1.02);
        this.controls.target.copy(center);
        this.#clip();
        this.controls.update();
        this.draw();
    }

    /** As a picture saw it. @param {import("./inputs.js").Camera} view */
    show(view) {
        this.#view = view;
        this.#look = { zoom: 1, x: 0, y: 0 };
        this.controls.enabled = false;
        this.draw();
    }

    /** Free again, from where it is. */
    leave() {
        if (!this.#view) return;
        const camera = this.#camera;
        this.#view = null;
        camera.matrixAutoUpdate = true;
        const ahead = camera.getWorldDirection(new Vector3());
        const depth = this.#sphere.center.clone().sub(camera.position).dot(ahead);
        this.controls.target.copy(camera.position).addScaledVector(ahead, Math.max(depth, this.#sphere.radius * 0.1));
        this.controls.enabled = true;
        this.controls.update();
        this.draw();
    }

    /** Magnifies the view of a picture about a point of the canvas. @param {number} factor @param {number} [x] @param {number} [y] in shares */
    magnify(factor, x = 0.5, y = 0.5) {
        const zoom = Math.min(64, Math.max(0.25, this.#look.zoom * factor));
        const ratio = zoom / this.#look.zoom;
        const about = (/** @type {number} */ at, /** @type {number} */ offset) => (at - 0.5) * (1 - ratio) + offset * ratio;
        this.#look = { zoom, x: about(x, this.#look.x), y: about(y, this.#look.y) };
        this.draw();
    }

    /** Moves it by shares of the canvas. @param {number} x @param {number} y */
    move(x, y) {
        this.#look = { ...this.#look, x: this.#look.x + x, y: this.#look.y + y };
        this.draw();
    }

    get magnification() {
        return this.#look.zoom;
    }

    /** One step of the keyboard while it is free. @param {"left" | "right" | "up" | "down" | "in" | "out"} way @param {boolean} shift */
    step(way, shift) {
        const pixels = 40;
        const sign = way === "left" || way === "up" ? 1 : -1;
        if (way === "in") this.controls.dollyIn(1.15);
        else if (way === "out") this.controls.dollyOut(1.15);
        else if (shift) this.controls.pan(way === "left" || way === "right" ? sign * pixels : 0, way === "up" || way === "down" ? sign * pixels : 0);
        else if (way === "left" || way === "right") this.controls.rotateLeft(sign * TURN);
        else this.controls.rotateUp(sign * TURN);
        this.controls.update();
    }

    draw() {
        if (this.#frame) return;
        this.#frame = requestAnimationFrame(() => {
            this.#frame = 0;
            this.#render();
        });
    }

    #render() {
        const camera = this.#camera;
        if (this.#view) {
            const { pose, lens, size } = this.#view;
            camera.matrixAutoUpdate = false;
            camera.matrix.fromArray(pose);
            camera.matrix.decompose(camera.position, camera.quaternion, camera.scale);
            camera.updateMatrixWorld(true);
            this.#clip();
            const rect = place(size, this.#size, this.#look);
            camera.projectionMatrix.fromArray(projection(lens, size, rect, this.#size, camera.near, camera.far));
            camera.projectionMatrixInverse.copy(camera.projectionMatrix).invert();
            this.renderer.render(this.#scene, camera);
            this.onplace(rect);
        } else {
            this.#clip();
            camera.aspect = this.#size[0] / this.#size[1];
            camera.updateProjectionMatrix();
            this.renderer.render(this.#scene, camera);
            this.onplace(null);
        }
        this.canvas.dataset.frames = String(Number(this.canvas.dataset.frames ?? 0) + 1);
    }

    /** The nearest and the farthest that there is to see. */
    #clip() {
        const { center, radius } = this.#sphere;
        const distance = this.#camera.position.distanceTo(center);
        this.#camera.near = Math.max(distance - radius * 1.01, radius * 1e-3);
        this.#camera.far = distance + radius * 1.01;
    }

    /** @param {number} width @param {number} height */
    #resized(width, height) {
        if (width < 1 || height < 1) return;
        this.#size = [width, height];
        this.renderer.setPixelRatio(devicePixelRatio);
        this.renderer.setSize(width, height, false);
        // At once: the canvas is empty until then.
        this.#render();
    }

    dispose() {
        cancelAnimationFrame(this.#frame);
        this.resize.disconnect();
        this.controls.dispose();
        for (const texture of this.#maps.values()) texture.dispose();
        for (const mesh of this.#meshes) mesh.geometry.dispose();
        this.renderer.dispose();
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
