/** The layout of the stage in page pixels, so that text keeps its size. */
import { type Endpoint, NODES } from "./playground/index.js";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Geometry {
  readonly width: number;
  readonly height: number;
  readonly wide: boolean;
  readonly nodes: readonly Point[];
  readonly nodeRadius: number;
  readonly store: Point;
  readonly storeWidth: number;
  readonly storeHeight: number;
  /** The middle of its upper edge, where writes arrive. */
  readonly resource: Point;
  readonly resourceHeight: number;
}

const RING_GAP = 7;

/** @param compact makes the stage less high, for a frame of another page */
export function geometryFor(width: number, compact = false): Geometry {
  const wide = width >= 560;
  const nodeRadius = wide ? 35 : 25;
  const storeWidth = wide ? 208 : 122;
  const storeHeight = wide ? 122 : 92;
  const rx = wide ? Math.min(width * 0.37, 300) : width / 2 - 50;
  const [wideRy, narrowRy] = compact ? [140, 128] : [176, 150];
  const ry = wide ? wideRy : narrowRy;
  const resourceHeight = wide ? 96 : 124;
  const store = { x: width / 2, y: (wide ? 64 : 48) + ry };
  const nodes = NODES.map((_, index) => {
    const angle = ((index * 72 - 90) * Math.PI) / 180;
    return { x: store.x + rx * Math.cos(angle), y: store.y + ry * Math.sin(angle) };
  });
  const resource = { x: store.x, y: store.y + ry * 0.81 + nodeRadius + (wide ? 62 : 56) };
  const height = resource.y + resourceHeight;
  return {
    width,
    height,
    wide,
    nodes,
    nodeRadius,
    store,
    storeWidth,
    storeHeight,
    resource,
    resourceHeight,
  };
}

/** The path of a message: a curve with one control point. */
export interface Way {
  readonly from: Point;
  readonly bend: Point;
  readonly to: Point;
}

/** Requests and answers travel on opposite sides of the line. */
const LANE = 5;

export function wayOf(geometry: Geometry, from: Endpoint, to: Endpoint): Way {
  const node = NODES.findIndex((name) => name === from || name === to);
  const point = geometry.nodes[node] ?? geometry.store;
  const outward = NODES.some((name) => name === from);
  const other = from === "resource" || to === "resource" ? "resource" : "store";
  const line = other === "store" ? toStore(geometry, point) : toResource(geometry, point, node);
  if (outward) return shift(line, LANE);
  const back = shift(line, -LANE);
  return { from: back.to, bend: back.bend, to: back.from };
}

export function toStore({ store, storeWidth, storeHeight, nodeRadius }: Geometry, at: Point): Way {
  const [dx, dy] = [store.x - at.x, store.y - at.y];
  const length = Math.hypot(dx, dy);
  const [ux, uy] = [dx / length, dy / length];
  const inside = Math.min(
    (storeWidth / 2 + 6) / Math.max(1e-6, Math.abs(ux)),
    (storeHeight / 2 + 6) / Math.max(1e-6, Math.abs(uy)),
  );
  const from = along(at, ux, uy, nodeRadius + RING_GAP + 5);
  const to = along(store, -ux, -uy, inside);
  return { from, to, bend: middle(from, to) };
}

/** Straight down from the lower nodes; around the store from the upper ones. */
export function toResource(geometry: Geometry, at: Point, node: number): Way {
  const { store, resource, nodeRadius, storeWidth } = geometry;
  const aside = node === 0 ? storeWidth * 1.22 : 0;
  const to = { x: resource.x + (at.x - store.x) * 0.12 + aside * 0.2, y: resource.y - 4 };
  const bend = { x: middle(at, to).x + aside, y: middle(at, to).y };
  const [dx, dy] = [bend.x - at.x, bend.y - at.y];
  const length = Math.hypot(dx, dy);
  return { from: along(at, dx / length, dy / length, nodeRadius + RING_GAP + 5), bend, to };
}

export function pointOn({ from, bend, to }: Way, share: number): Point {
  const [a, b, c] = [(1 - share) ** 2, 2 * share * (1 - share), share ** 2];
  return { x: a * from.x + b * bend.x + c * to.x, y: a * from.y + b * bend.y + c * to.y };
}

export function pathOf({ from, bend, to }: Way): string {
  return `M${from.x} ${from.y}Q${bend.x} ${bend.y} ${to.x} ${to.y}`;
}

const along = ({ x, y }: Point, ux: number, uy: number, by: number): Point => ({
  x: x + ux * by,
  y: y + uy * by,
});
const middle = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });

function shift({ from, bend, to }: Way, by: number): Way {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [nx, ny] = [(-dy / length) * by, (dx / length) * by];
  const move = ({ x, y }: Point): Point => ({ x: x + nx, y: y + ny });
  return { from: move(from), bend: move(bend), to: move(to) };
}
