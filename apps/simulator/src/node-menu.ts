/** The menu of a process, which depends on its state. */

import type { Choice, Group } from "./menu.js";
import type { Action, NodeFrame } from "./playground/index.js";

const RATES = [-30, -10, 0, 10, 30] as const;
const JUMPS_MS = [-3_600_000, -60_000, 60_000, 3_600_000] as const;

const signed = (value: number) => (value > 0 ? `+${value}` : `${value}`.replace("-", "−"));
const jumpText = (ms: number) =>
  Math.abs(ms) >= 3_600_000 ? `${signed(ms / 3_600_000)} h` : `${signed(ms / 60_000)} min`;

export function nodeGroups(
  { name: node, state, link, role, starts }: NodeFrame,
  perform: (action: Action) => void,
): readonly Group[] {
  const choice = (name: string, action: Action, note?: string): Choice => ({
    name,
    run: () => perform(action),
    ...(note !== undefined && { note }),
  });
  if (state === "down") {
    const name = starts === 0 ? "Start" : "Restart";
    return [{ name: "Process", choices: [choice(name, { kind: "restart", node })] }];
  }
  const crash = { ...choice("Crash", { kind: "crash", node }, "like kill -9"), danger: true };
  const isStopped = state !== "up";
  return [
    {
      name: "Process",
      choices: isStopped
        ? [choice("Resume", { kind: "resume", node }, "it does not notice the pause"), crash]
        : [
            crash,
            choice("Pause", { kind: "pause", node }, "like a long garbage collection"),
            choice(
              "Pause during a write",
              { kind: "pause", node, midWrite: true },
              "after the lease check, before the send",
            ),
            choice("Suspend", { kind: "suspend", node }, "its monotonic clock stops too"),
            ...(role === "leader"
              ? [choice("Resign", { kind: "resign" }, "releases the lease voluntarily")]
              : []),
          ],
    },
    {
      name: "Network to the store",
      choices:
        link === "whole"
          ? [
              choice("Cut off", { kind: "cut", node, way: "both" }),
              choice("Block its requests", { kind: "cut", node, way: "requests" }),
              choice("Block its answers", { kind: "cut", node, way: "answers" }),
            ]
          : [choice("Reconnect", { kind: "mend", node })],
    },
    {
      name: "Clock speed",
      inRow: true,
      choices: RATES.map((percent) =>
        choice(percent === 0 ? "normal" : `${signed(percent)}%`, { kind: "rate", node, percent }),
      ),
    },
    {
      name: "Set the wall clock",
      inRow: true,
      choices: JUMPS_MS.map((ms) => choice(jumpText(ms), { kind: "jump", node, ms })),
    },
  ];
}
