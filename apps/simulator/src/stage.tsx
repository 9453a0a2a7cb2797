/** One moment of the run: processes around the store, messages in flight, and the protected resource. */
import { classNames, Icon, tokenStyle } from "leasehold-ui";
import { useEffect, useRef, useState } from "react";
import {
  type Geometry,
  geometryFor,
  type Point,
  pathOf,
  pointOn,
  toResource,
  toStore,
} from "./geometry.js";
import { MessageDot } from "./message-dot.js";
import { NodeButton } from "./node-button.js";
import {
  type Endpoint,
  type Frame,
  type LogLine,
  NODES,
  type NodeFrame,
} from "./playground/index.js";
import { Resource } from "./resource.js";
import { StoreCard } from "./store-card.js";
import { usePlayer, useView } from "./use-player.js";

/** The id of the stage's card. */
export const STAGE_ID = "stage";

export function Stage({ compact }: { readonly compact: boolean }) {
  const { frame, playing, playground } = useView();
  const [width, setWidth] = useState(0);
  const host = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const measure = () => setWidth(element.clientWidth);
    measure();
    const sized = new ResizeObserver(measure);
    sized.observe(element);
    return () => sized.disconnect();
  }, []);
  const geometry = geometryFor(Math.max(300, width), compact);
  return (
    <section
      ref={host}
      aria-label="Stage"
      className="relative overflow-hidden"
      style={{ height: geometry.height }}
    >
      {width > 0 && (
        <>
          <Glow geometry={geometry} frame={frame} />
          <Lines geometry={geometry} frame={frame} />
          <ul aria-label="Processes">
            {frame.nodes.map((node, index) => (
              <NodeButton
                key={node.name}
                node={node}
                at={geometry.nodes[index] ?? geometry.store}
                radius={geometry.nodeRadius}
                wide={geometry.wide}
              />
            ))}
          </ul>
          {frame.atMs === 0 && !playing && <Begin geometry={geometry} />}
          <StoreCard store={frame.store} geometry={geometry} />
          {geometry.wide && (
            <p className="absolute top-3 left-5 max-w-40 text-xs text-pretty text-muted">
              Click a process, the store or a message in flight.
            </p>
          )}
          <Resource resource={frame.resource} geometry={geometry} />
          <Loss geometry={geometry} lost={lastLost(playground.log, frame)} />
          <ul aria-label="Messages in flight">
            {frame.messages.map((message) => (
              <MessageDot
                key={message.id}
                message={message}
                geometry={geometry}
                atMs={frame.atMs}
                named={geometry.wide && frame.messages.length <= 4}
                reachable={!playing}
              />
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** How long a lost message stays marked, in virtual time. */
const MARKED_MS = 900;

/** The sender of a message that was lost recently; null: none. */
function lastLost(log: readonly LogLine[], { atMs, logEnd }: Frame): Endpoint | null {
  for (let index = logEnd - 1; index >= 0; index--) {
    const line = log[index];
    if (!line || line.atMs < atMs - MARKED_MS) return null;
    if (line.kind === "message" && line.who !== "you" && line.who !== "check") return line.who;
  }
  return null;
}

function Loss({ geometry, lost }: { readonly geometry: Geometry; readonly lost: Endpoint | null }) {
  if (lost === null) return null;
  const { store, storeHeight, resource, nodes, nodeRadius, wide } = geometry;
  const node = nodes[NODES.findIndex((name) => name === lost)];
  const { x, y } = node ?? (lost === "store" ? store : resource);
  // The crown is above a node and its role below it.
  const isAside = node !== undefined && (wide || node === nodes[0]);
  const nodeBelow = isAside ? 0 : nodeRadius + 42;
  const below = node ? nodeBelow : lost === "store" ? storeHeight / 2 + 14 : -16;
  return (
    <span
      aria-hidden="true"
      style={{ left: isAside ? x - nodeRadius - 64 : x, top: y + below }}
      className="absolute z-10 -translate-1/2 rounded-full bg-danger-soft px-2 py-0.5 text-2xs font-semibold whitespace-nowrap text-danger"
    >
      × message lost
    </span>
  );
}

/** A second play button in the middle of the stage before the run starts. */
function Begin({ geometry }: { readonly geometry: Geometry }) {
  const player = usePlayer();
  const { store, storeHeight, resource } = geometry;
  return (
    <button
      type="button"
      aria-hidden="true"
      tabIndex={-1}
      title="Play"
      style={{ left: store.x, top: (store.y + storeHeight / 2 + resource.y) / 2 }}
      className="absolute z-10 grid size-14 -translate-1/2 place-content-center rounded-full bg-accent text-accent-ink shadow-raised transition-[scale] hover:scale-105 sm:size-16"
      onClick={player.play}
    >
      <Icon name="play" size={26} />
    </button>
  );
}

/** A glow in the colour of the current token while the store's lease is live. */
function Glow({ geometry, frame }: { readonly geometry: Geometry; readonly frame: Frame }) {
  const { token, lease } = frame.store;
  if (token === null) return null;
  return (
    <div
      aria-hidden="true"
      style={{
        left: geometry.store.x,
        top: geometry.store.y,
        width: geometry.storeWidth * 2.4,
        ...tokenStyle(token),
      }}
      className={classNames(
        "token-glow absolute aspect-square -translate-1/2 rounded-full transition-opacity duration-500",
        lease !== "live" && "opacity-0",
      )}
    />
  );
}

function Lines({ geometry, frame }: { readonly geometry: Geometry; readonly frame: Frame }) {
  const { width, height, store, nodes, nodeRadius } = geometry;
  const [first] = nodes;
  return (
    <svg aria-hidden="true" width={width} height={height} className="absolute inset-0">
      {first && (
        <ellipse
          {...{ cx: store.x, cy: store.y, fill: "none" }}
          rx={Math.abs((nodes[1]?.x ?? 0) - store.x) / Math.sin((72 * Math.PI) / 180)}
          ry={store.y - first.y}
          className="stroke-line"
          strokeDasharray="1 7"
          strokeLinecap="round"
          strokeWidth="2"
        />
      )}
      {frame.nodes.map((node, index) => {
        const at = nodes[index] ?? store;
        return (
          <g key={node.name}>
            <Spoke node={node} at={at} {...{ geometry, frame }} />
            {writes(node, frame) && (
              <path
                d={pathOf(toResource(geometry, at, index))}
                style={node.token === null ? undefined : tokenStyle(node.token)}
                className={classNames(
                  "opacity-45",
                  node.token === null ? "stroke-line-strong" : "token-stroke",
                )}
                fill="none"
                strokeWidth="1.5"
                strokeDasharray="2 5"
                strokeLinecap="round"
              />
            )}
            <Ring node={node} at={at} radius={nodeRadius} />
          </g>
        );
      })}
    </svg>
  );
}

const writes = (node: NodeFrame, { messages }: Frame): boolean =>
  node.role === "leader" ||
  messages.some(
    ({ from, to }) =>
      (from === node.name && to === "resource") || (to === node.name && from === "resource"),
  );

const CUT_TEXT = {
  "cut off": "cut off",
  "cannot send": "cannot send",
  "cannot receive": "cannot receive",
} as const;

function Spoke({
  node,
  at,
  geometry,
  frame,
}: {
  readonly node: NodeFrame;
  readonly at: Point;
  readonly geometry: Geometry;
  readonly frame: Frame;
}) {
  const way = toStore(geometry, at);
  const holds = frame.store.lease === "live" && frame.store.holder === node.name;
  const { token } = frame.store;
  if (node.link !== "whole") {
    // Nearer to the store, because the role is below the process.
    const { x, y } = pointOn(way, 0.7);
    const isUpright = Math.abs(at.x - geometry.store.x) < 1;
    return (
      <g className="text-danger">
        <path
          d={pathOf(way)}
          stroke="currentColor"
          strokeWidth="1.5"
          strokeDasharray="3 6"
          opacity=".6"
        />
        <circle cx={x} cy={y} r="9" className="fill-danger-soft" />
        <path
          d={`M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`}
          stroke="currentColor"
          strokeWidth="1.8"
          strokeLinecap="round"
        />
        {geometry.wide && (
          <text
            x={isUpright ? x + 14 : x}
            y={isUpright ? y + 4 : y + 21}
            textAnchor={isUpright ? "start" : "middle"}
            fill="currentColor"
            className="text-2xs"
          >
            {CUT_TEXT[node.link]}
          </text>
        )}
      </g>
    );
  }
  return (
    <path
      d={pathOf(way)}
      style={holds && token !== null ? tokenStyle(token) : undefined}
      className={holds ? "token-stroke" : "stroke-line"}
      strokeWidth={holds ? 2.5 : 1.5}
      opacity={node.role === "off" ? 0.4 : 1}
    />
  );
}

/** The remaining trust of a process, in the colour of the token that it believes in. */
function Ring({
  node: { token, trustMs, ttlMs, state },
  at,
  radius,
}: {
  readonly node: NodeFrame;
  readonly at: Point;
  readonly radius: number;
}) {
  const r = radius + 6;
  const length = 2 * Math.PI * r;
  const share = ttlMs > 0 ? Math.min(1, Math.max(0, trustMs / ttlMs)) : 0;
  return (
    <g fill="none" strokeWidth="5" transform={`rotate(-90 ${at.x} ${at.y})`}>
      <circle cx={at.x} cy={at.y} r={r} className="stroke-line" />
      {token !== null && state !== "down" && share > 0 && (
        <circle
          {...{ cx: at.x, cy: at.y, r }}
          style={tokenStyle(token)}
          className="token-stroke"
          strokeLinecap="round"
          strokeDasharray={`${length * share} ${length}`}
        />
      )}
    </g>
  );
}
