/** Text for the log. */
import type { AnswerKind, CutWay, TimedAction } from "./actions.js";
import { type NodeName, RANGES } from "./settings.js";

/** A duration as text: "0.3 s", "10 s", "45 ms". */
export function duration(ms: number): string {
  if (Math.abs(ms) < 100) return `${Math.round(ms)} ms`;
  return `${Math.round(ms / 100) / 10} s`;
}

/** "1st", "2nd". */
export function ordinal(position: number): string {
  return `${position}${["th", "st", "nd", "rd"][position] ?? "th"}`;
}

/** The process of a holder's name: "P1" of "P1/2", the second process of that name. */
export function nodeOf(holder: string): NodeName {
  return holder.split("/", 1)[0] as NodeName;
}

const CUTS: Readonly<Record<CutWay, string>> = {
  both: "is cut off from the store",
  requests: "can no longer send to the store",
  answers: "no longer receives from the store",
};

const REQUESTS: Readonly<Record<AnswerKind, string>> = {
  acquire: "request for the lease",
  renew: "renewal",
  release: "release",
  write: "write",
};

/** An action as a clause: "P1 crashes". */
export function describeAction(action: TimedAction["action"]): string {
  switch (action.kind) {
    case "crash":
      return `${action.node} crashes`;
    case "restart":
      return `${action.node} restarts`;
    case "pause":
      return action.midWrite
        ? `${action.node} is paused during its next write`
        : `${action.node} is paused`;
    case "suspend":
      return `${action.node} is suspended`;
    case "resume":
      return `${action.node} resumes`;
    case "cut":
      return `${action.node} ${CUTS[action.way]}`;
    case "mend":
      return `${action.node} reaches the store again`;
    case "rate":
      return action.percent === 0
        ? `the clocks of ${action.node} keep time`
        : `the clocks of ${action.node} run ${Math.abs(action.percent)} % ${action.percent < 0 ? "slow" : "fast"}`;
    case "jump":
      return `the wall clock of ${action.node} is set ${action.ms < 0 ? "back" : "forward"} by ${duration(Math.abs(action.ms))}`;
    case "expire":
      return "the lease is forced to expire in the store";
    case "resign":
      return action.successor
        ? `the leader hands over to ${action.successor}`
        : "the leader resigns";
    case "revoke":
      return action.free === "now"
        ? "an operator revokes the lease at once"
        : "an operator revokes the lease at its expiry";
    case "drop":
      return `message ${action.message} is lost`;
    case "delay":
      return `message ${action.message} arrives ${duration(action.byMs)} later`;
    case "duplicate":
      return `message ${action.message} arrives twice`;
    case "dropAnswer":
      return `the next answer to ${action.node} about its ${REQUESTS[action.of]} is lost`;
    case "fence":
      return action.on ? "fencing is switched on" : "fencing is switched off";
    case "set": {
      const { label, unit } = RANGES[action.setting];
      return `${label}: ${unit === "ms" ? duration(action.value) : `${action.value} %`}`;
    }
  }
}
