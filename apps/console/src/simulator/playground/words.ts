/** How the log says things. */
import type { AnswerKind, CutWay, TimedAct } from "./acts.js";
import { type NodeName, RANGES } from "./settings.js";

/** A duration as people say it: "0.3 s", "10 s", "45 ms". */
export function duration(ms: number): string {
  if (Math.abs(ms) < 100) return `${Math.round(ms)} ms`;
  return `${Math.round(ms / 100) / 10} s`;
}

/** "1st", "2nd". */
export function ordinal(place: number): string {
  return `${place}${["th", "st", "nd", "rd"][place] ?? "th"}`;
}

/** The process of a holder's name: "P1" of "P1/2", the second process of that name. */
export function nodeOf(holder: string): NodeName {
  return holder.split("/", 1)[0] as NodeName;
}

const CUTS: Readonly<Record<CutWay, string>> = {
  both: "is cut off from the store",
  requests: "can no longer send to the store",
  answers: "hears nothing from the store any more",
};

const ASKED: Readonly<Record<AnswerKind, string>> = {
  acquire: "request for the lease",
  renew: "renewal",
  release: "release",
  write: "write",
};

/** An act as a clause: "P1 crashes". */
export function describeAct(act: TimedAct["act"]): string {
  switch (act.kind) {
    case "crash":
      return `${act.node} crashes`;
    case "restart":
      return `${act.node} is started again`;
    case "pause":
      return act.midWrite
        ? `${act.node} is paused in the middle of its next write`
        : `${act.node} is paused`;
    case "suspend":
      return `${act.node} is suspended`;
    case "resume":
      return `${act.node} goes on`;
    case "cut":
      return `${act.node} ${CUTS[act.way]}`;
    case "mend":
      return `${act.node} reaches the store again`;
    case "rate":
      return act.percent === 0
        ? `the clocks of ${act.node} keep time`
        : `the clocks of ${act.node} run ${Math.abs(act.percent)} % ${act.percent < 0 ? "slow" : "fast"}`;
    case "jump":
      return `the wall clock of ${act.node} is set ${act.ms < 0 ? "back" : "forward"} by ${duration(Math.abs(act.ms))}`;
    case "expire":
      return "the lease is made to expire in the store";
    case "resign":
      return act.successor ? `the leader hands over to ${act.successor}` : "the leader resigns";
    case "revoke":
      return act.free === "now"
        ? "an operator revokes the lease at once"
        : "an operator revokes the lease as of its expiry";
    case "drop":
      return `message ${act.message} is lost`;
    case "delay":
      return `message ${act.message} comes ${duration(act.byMs)} later`;
    case "duplicate":
      return `message ${act.message} arrives twice`;
    case "dropAnswer":
      return `the next answer to ${act.node} about its ${ASKED[act.of]} is lost`;
    case "fence":
      return act.on ? "the resource fences" : "the resource fences no more";
    case "set": {
      const { label, unit } = RANGES[act.setting];
      return `${label}: ${unit === "ms" ? duration(act.value) : `${act.value} %`}`;
    }
  }
}
