// A textured GLB → a 3D view of it on a canvas: free, or from exactly the camera of a picture. Draws only when something changed.

import {
    AmbientLight, Box3, Color, DirectionalLight, NeutralToneMapping, PerspectiveCamera, PMREMGenerator, Quaternion, Scene, Sphere, Vector3,
    WebGLRenderer,
} from "three"; // prettier-ignore
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { RoomEnvironment } from "three/addons/environments/RoomEnvironment.js";
import { place, projection } from "./camera.js";
import { Model } from "./model.js";

/** @typedef {import("./model.js").Surface} Surface */

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
    #scene = new Scene();
    #sphere = new Sphere(new Vector3(), 1);
    #camera = new PerspectiveCamera(FOV, 1, 0.1, 10);
    #size = /** @type {[number, number]} */ ([1, 1]);
    /** @type {import("three").Light[]} */
    #lamps = [];

    /** @type {Model | null} */
    #model = null;

    /** @param {HTMLCanvasElement} canvas @param {ArrayBuffer} glb @param {number} pages @param {[number, number, number]} up */
    static async open(canvas, glb, pages, up) {
        const view = new View3D(canvas, up);
        const model = await Model.read(glb, pages, view.renderer);
        view.#model = model;
        view.#scene.add(model.scene);
        new Box3().setFromObject(model.scene).getBoundingSphere(view.#sphere);
        view.fit();
        return view;
    }

    /** @param {HTMLCanvasElement} canvas @param {[number, number, number]} up */
    constructor(canvas, up) {
        this.canvas = canvas;
        this.#camera.up.fromArray(up);
        this.renderer = new WebGLRenderer({ canvas, antialias: true, alpha: true });
        this.renderer.setClearColor(new Color(0), 0);
        // Of what is lit alone: it leaves colours as they are, up to where they would be cut off.
        this.renderer.toneMapping = NeutralToneMapping;
        this.controls = new OrbitControls(this.#camera, canvas);
        this.controls.enableDamping = false;
        this.controls.addEventListener("change", () => this.draw());
        canvas.addEventListener("webglcontextrestored", () => this.draw());
        const light = new DirectionalLight(0xffffff, 2.2);
        light.position.set(0.3, 0.5, 1);
        this.#camera.add(light);
        this.#lamps = [light, new AmbientLight(0xffffff, 0.9)];
        this.#scene.add(this.#camera, this.#lamps[1]);
        this.resize = new ResizeObserver(([entry]) => this.#resized(entry.contentRect.width, entry.contentRect.height));
        this.resize.observe(/** @type {Element} */ (canvas.parentElement));
    }

    get model() {
        return /** @type {Model} */ (this.#model);
    }

    /** @param {Surface} surface */
    setSurface(surface) {
        this.model.dress(surface);
        // The lamps are for the shape alone; a material of the file is lit by a room.
        for (const lamp of this.#lamps) lamp.visible = surface === "clay";
        if (surface === "lit") this.#scene.environment ??= this.#room();
        this.draw();
    }

    /** A room of white walls and lamps, upright in the model's world. */
    #room() {
        const generator = new PMREMGenerator(this.renderer);
        const room = new RoomEnvironment();
        const { texture } = generator.fromScene(room, 0.04);
        room.dispose();
        generator.dispose();
        this.#scene.environmentRotation.setFromQuaternion(new Quaternion().setFromUnitVectors(new Vector3(0, 1, 0), this.#camera.up.clone().normalize()));
        return texture;
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
        this.#scene.environment?.dispose();
        this.#model?.dispose();
        this.renderer.dispose();
    }
}
