/** Renders the picture as lines for a terminal of a given size. */

import { formatDuration, TASK_STATES } from "leasehold/internal";
import { colors } from "../output.js";
import { type Held, type News, type Picture, short } from "./picture.js";

export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** A piece of a line. It is cut and padded as plain text, then coloured. */
interface Span {
  readonly text: string;
  readonly color?: (text: string) => string;
}
type Line = readonly Span[];

const BARS = "▁▂▃▄▅▆▇█";
const { bold, cyan, dim, green, red, yellow } = colors;
const NEWS_COLORS: Readonly<Record<News["what"], (text: string) => string>> = {
  "handed over": cyan,
  refused: red,
  expired: yellow,
  process: yellow,
  generator: green,
  server: red,
};
/** Width of the longest kind of news. */
const NEWS_WIDTH = 11;
/** Lines of news that stay if the table of tasks needs room, as long as the table has half of it. */
const FEWEST_NEWS = 4;

/** Returns as many lines as fit, none wider than the terminal. */
export function render(picture: Picture, nowMs: number, size: Size): string[] {
  const head = [
    titleOf(picture, nowMs),
    [],
    queueOf(picture),
    rateOf(picture, nowMs, size.columns),
    ...generatorOf(picture, nowMs),
    [],
  ];
  const foot: Line[] = [[], [{ text: footOf(picture), color: dim }]];
  const room = size.rows - head.length - foot.length;
  const table = workersOf(picture, nowMs, size.columns);
  const share = Math.max(room - FEWEST_NEWS - 1, Math.floor(room / 2));
  const tableRoom = Math.max(0, Math.min(table.length, share));
  const news = newsOf(picture.news, Math.max(0, room - tableRoom - 1));
  const lines = [...head, ...cut(table, tableRoom), [], ...news, ...foot];
  return lines.slice(0, size.rows).map((line) => draw(line, size.columns));
}

function titleOf({ url, store, startedAtMs, draining }: Picture, nowMs: number): Line {
  const state = draining ? "draining" : `up ${formatDuration(nowMs - startedAtMs)}`;
  return [
    { text: "leasehold demo", color: bold },
    { text: `  ${state}`, ...(draining && { color: yellow }) },
    { text: `  ${url}  ${store}`, color: dim },
  ];
}

const STATE_COLORS = {
  pending: yellow,
  running: cyan,
  done: green,
  dead: red,
  cancelled: dim,
  expired: dim,
};

function queueOf({ counts }: Picture): Line {
  return [
    { text: label("tasks") },
    ...TASK_STATES.flatMap((state) => [
      { text: `${state} `, color: dim },
      { text: `${counts[state]}   `, color: STATE_COLORS[state] },
    ]),
  ];
}

function rateOf(picture: Picture, nowMs: number, columns: number): Line {
  const history = picture.donePerSecond(nowMs);
  const last = history.slice(-10);
  const mean = last.reduce((sum, count) => sum + count, 0) / Math.max(1, last.length);
  const text = `${mean.toFixed(1)} per second  `;
  const room = Math.max(0, columns - label("done").length - text.length);
  const shown = history.slice(-Math.min(room, history.length) || history.length);
  const most = Math.max(1, ...shown);
  const bar = (count: number) => BARS[Math.ceil((count / most) * (BARS.length - 1))] ?? "";
  return [{ text: label("done") }, { text: text + shown.map(bar).join(""), color: green }];
}

function generatorOf({ leader, processes }: Picture, nowMs: number): Line[] {
  const ready = [...processes.values()].filter(
    ({ name, holder, ended }) =>
      name.startsWith("generator") && ended === null && holder !== leader?.holder,
  );
  const who: Span[] = leader
    ? [
        { text: leader.holder, color: green },
        { text: `  token ${leader.token}  ${leftOf(leader.expiresAtMs, nowMs)} left` },
      ]
    : [{ text: "no leader yet", color: yellow }];
  const standby = ready.map(({ holder }) => holder).join(", ");
  return [
    [
      { text: label("generates") },
      ...who,
      ...(standby ? [{ text: `  ready: ${standby}`, color: dim }] : []),
    ],
  ];
}

interface Column {
  readonly head: string;
  readonly width: number;
  readonly right?: boolean;
  /** The column is left out in narrower terminals. */
  readonly from?: number;
}
const COLUMNS: readonly Column[] = [
  { head: "worker", width: 13 },
  { head: "pid", width: 7, right: true, from: 70 },
  { head: "task", width: 6 },
  { head: "kind", width: 8, from: 90 },
  { head: "token", width: 16, right: true },
  { head: "try", width: 3, right: true, from: 60 },
  { head: "left", width: 5, right: true },
];
const GAP = "  ";

function workersOf({ processes, held }: Picture, nowMs: number, width: number): Line[] {
  const columns = COLUMNS.filter(({ from = 0 }) => width >= from);
  const row = (cells: Readonly<Record<string, Span>>): Line =>
    columns.map(({ head, width, right }) => {
      const { text, ...color } = cells[head] ?? { text: "" };
      return { text: (right ? text.padStart(width) : text.padEnd(width)) + GAP, ...color };
    });
  const lines: Line[] = [
    row(Object.fromEntries(columns.map(({ head }) => [head, { text: head, color: bold }]))),
  ];
  const byHolder = new Map<string, Held[]>();
  for (const task of held.values()) {
    byHolder.set(task.holder, [...(byHolder.get(task.holder) ?? []), task]);
  }
  const taskRow = (who: Readonly<Record<string, Span>>, task: Held) => {
    const leftMs = task.expiresAtMs - nowMs;
    return row({
      ...who,
      task: { text: short(task.id) },
      kind: { text: task.kind },
      token: { text: String(task.token) },
      try: { text: String(task.attempt ?? ""), ...((task.attempt ?? 1) > 1 && { color: yellow }) },
      left: leftMs > 0 ? { text: formatDuration(leftMs) } : { text: "over", color: red },
    });
  };
  const add = (who: Readonly<Record<string, Span>>, tasks: readonly Held[]) => {
    for (const [index, task] of tasks.entries()) lines.push(taskRow(index === 0 ? who : {}, task));
  };
  const workers = [...processes.values()].filter(({ name }) => name.startsWith("worker"));
  for (const { holder, pid, ended } of workers) {
    const who = {
      worker: { text: holder, color: ended === null ? bold : dim },
      pid: { text: String(pid) },
    };
    const tasks = byHolder.get(holder) ?? [];
    byHolder.delete(holder);
    if (tasks.length > 0) add(who, tasks);
    else lines.push(row({ ...who, task: { text: ended ?? "idle", color: dim } }));
  }
  // Tasks of dead workers until their leases expire, and tasks of workers elsewhere.
  for (const [holder, tasks] of byHolder) add({ worker: { text: holder, color: dim } }, tasks);
  return lines;
}

function newsOf(news: readonly News[], room: number): Line[] {
  return news
    .slice(0, room)
    .map(({ wallMs, what, text }) => [
      { text: `${new Date(wallMs).toTimeString().slice(0, 8)}  `, color: dim },
      { text: `${what.padEnd(NEWS_WIDTH)}  `, color: NEWS_COLORS[what] },
      { text },
    ]);
}

function footOf({ totals, draining }: Picture): string {
  const { completed, handedOver, refused, crashed } = totals;
  const help = draining ? "Ctrl-C again ends at once" : "Ctrl-C ends; a restart goes on";
  return `${help} - ${completed} done, ${handedOver} handed over, ${refused} refused, ${crashed} crashes`;
}

function leftOf(expiresAtMs: number, nowMs: number): string {
  return formatDuration(Math.max(0, expiresAtMs - nowMs));
}

function label(text: string): string {
  return text.padEnd(11);
}

/** Returns the first lines, and a last line with the number of those that do not fit. */
function cut(lines: readonly Line[], room: number): readonly Line[] {
  if (lines.length <= room) return lines;
  if (room === 0) return [];
  const more = lines.length - room + 1;
  return [...lines.slice(0, room - 1), [{ text: `and ${more} more`, color: dim }]];
}

function draw(line: Line, columns: number): string {
  let left = columns;
  let drawn = "";
  for (const { text, color } of line) {
    const fitting = text.length <= left ? text : text.slice(0, left);
    left -= fitting.length;
    drawn += color && fitting ? color(fitting) : fitting;
  }
  return drawn;
}
