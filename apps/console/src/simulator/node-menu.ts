/** What can be done to a process, by what it is doing. */

import type { Choice, Group } from "./menu.js";
import type { Act, NodeFrame } from "./playground/index.js";

const RATES = [-30, -10, 0, 10, 30] as const;
const JUMPS_MS = [-3_600_000, -60_000, 60_000, 3_600_000] as const;

const signed = (value: number) => (value > 0 ? `+${value}` : `${value}`.replace("-", "−"));
const jumpText = (ms: number) =>
  Math.abs(ms) >= 3_600_000 ? `${signed(ms / 3_600_000)} h` : `${signed(ms / 60_000)} min`;

export function nodeGroups(
  { name: node, state, link, role, starts }: NodeFrame,
  act: (act: Act) => void,
): readonly Group[] {
  const choice = (name: string, what: Act, note?: string): Choice => ({
    name,
    run: () => act(what),
    ...(note !== undefined && { note }),
  });
  if (state === "down") {
    const name = starts === 0 ? "Start" : "Restart";
    return [{ name: "Process", choices: [choice(name, { kind: "restart", node })] }];
  }
  const crash = { ...choice("Crash", { kind: "crash", node }, "like kill -9"), danger: true };
  const stands = state !== "up";
  return [
    {
      name: "Process",
      choices: stands
        ? [choice("Resume", { kind: "resume", node }, "it knows nothing of the pause"), crash]
        : [
            crash,
            choice("Pause", { kind: "pause", node }, "a long garbage collection"),
            choice(
              "Pause in the middle of a write",
              { kind: "pause", node, midWrite: true },
              "checked against the lease, not yet sent",
            ),
            choice("Suspend", { kind: "suspend", node }, "its monotonic clock stands too"),
            ...(role === "leader"
              ? [choice("Resign", { kind: "resign" }, "gives the lease back by itself")]
              : []),
          ],
    },
    {
      name: "Network to the store",
      choices:
        link === "whole"
          ? [
              choice("Cut off", { kind: "cut", node, way: "both" }),
              choice("Cut what it sends", { kind: "cut", node, way: "requests" }),
              choice("Cut what it gets", { kind: "cut", node, way: "answers" }),
            ]
          : [choice("Mend", { kind: "mend", node })],
    },
    {
      name: "Clock runs faster or slower",
      inRow: true,
      choices: RATES.map((percent) =>
        choice(percent === 0 ? "true" : `${signed(percent)}%`, { kind: "rate", node, percent }),
      ),
    },
    {
      name: "Wall clock jumps",
      inRow: true,
      choices: JUMPS_MS.map((ms) => choice(jumpText(ms), { kind: "jump", node, ms })),
    },
  ];
}
