/** Performs the user's actions. An impossible action is logged and changes nothing. */
import type { Action } from "./actions.js";
import type { Candidate } from "./candidate.js";
import type { LogLine, ProcessState } from "./frame.js";
import type { Ledger } from "./ledger.js";
import type { Messages } from "./messages.js";
import { fitSettings, type NodeName } from "./settings.js";
import type { Stage } from "./stage.js";
import { describeAction, duration } from "./words.js";

/** The parts that actions change. */
export interface Cast {
  readonly stage: Stage;
  readonly ledger: Ledger;
  readonly messages: Messages;
  candidate(name: NodeName): Candidate;
  /** The process that leads now, frozen or not. */
  leader(): Candidate | undefined;
  start(candidate: Candidate): void;
  /** Makes processes request their next lease with the current settings. */
  useSettings(): void;
  /** Applies latency and loss from the settings to the network. */
  applyWeather(): void;
  /** The state of the store's process. */
  storeState: Exclude<ProcessState, "suspended">;
}

/** The delay between a message and its duplicate. */
const COPY_AFTER_MS = 30;

export function perform(cast: Cast, action: Action): void {
  switch (action.kind) {
    case "crash":
    case "restart":
    case "pause":
    case "suspend":
    case "resume":
      if (action.node === "store") onStore(cast, action.kind);
      else onProcess(cast, action, cast.candidate(action.node));
      break;
    case "cut":
    case "mend":
      onLink(cast, action);
      break;
    case "rate":
    case "jump":
      onClock(cast, action, cast.candidate(action.node));
      break;
    case "drop":
    case "delay":
    case "duplicate":
    case "dropAnswer":
      onMessage(cast, action);
      break;
    case "expire":
      if (!cast.ledger.expire()) log(cast, "store", "expire", "There is no lease to expire.");
      break;
    case "revoke":
      cast.ledger.revoke(action.free);
      break;
    case "resign":
      resign(cast, action.successor);
      break;
    case "fence":
      cast.stage.settings = { ...cast.stage.settings, fenced: action.on };
      log(cast, "resource", "setting", sentence(action), true);
      break;
    case "set":
      set(cast, action);
  }
}

type On<Kind extends Action["kind"]> = Extract<Action, { kind: Kind }>;

function onProcess(
  cast: Cast,
  action: On<"crash" | "restart" | "pause" | "suspend" | "resume">,
  candidate: Candidate,
): void {
  const { name, state, program } = candidate;
  const nothing = (why: string) => log(cast, name, "process", `${name} ${why}.`);
  const belief = program?.belief;
  const had = belief ? ` It holds token ${belief.token}, and the store does not notice.` : "";
  switch (action.kind) {
    case "crash":
      if (!program) return nothing("is not running, so it cannot crash");
      candidate.crash();
      return log(cast, name, "process", `${sentence(action)}${had.replace("holds", "held")}`, true);
    case "restart":
      if (program) return nothing("is already running");
      cast.start(candidate);
      return log(cast, name, "process", `${sentence(action)} It has no state from before.`, true);
    case "pause":
      if (!program || state !== "up") return nothing("is not running, so it cannot be paused");
      if (!action.midWrite) break;
      program.onceChecked(() => {
        if (candidate.program !== program || candidate.state !== "up") return;
        candidate.freeze("paused");
        const text = `${name} is paused, as if by a long garbage collection. It has just checked its lease and is about to write.`;
        log(cast, name, "process", text, true);
      });
      return log(cast, name, "process", `${name} will be paused during its next write.`);
    case "suspend":
      if (!program || state !== "up") return nothing("is not running, so it cannot be suspended");
      break;
    case "resume": {
      if (state !== "paused" && state !== "suspended") return nothing("is not paused");
      const frozenMs = candidate.resume();
      const still = belief ? ` It still believes in token ${belief.token}.` : "";
      return log(
        cast,
        name,
        "process",
        `${name} resumes after ${duration(frozenMs)}.${still}`,
        true,
      );
    }
  }
  candidate.freeze(action.kind === "pause" ? "paused" : "suspended");
  const how =
    action.kind === "pause" ? "is paused, as if by a long garbage collection" : "is suspended";
  const clocks = action.kind === "pause" ? "" : " Its monotonic clock stops too.";
  log(cast, name, "process", `${name} ${how}.${clocks}${had}`, true);
}

function onStore(cast: Cast, kind: "crash" | "restart" | "pause" | "suspend" | "resume"): void {
  const { machine } = cast.ledger;
  const change = (state: Cast["storeState"], text: string) => {
    cast.storeState = state;
    log(cast, "store", "process", text, true);
  };
  const { storeState: state } = cast;
  if (kind === "crash" && state !== "down") {
    machine.resume();
    machine.crash();
    change("down", "The store is down, so no process can renew. It keeps its records.");
  } else if (kind === "restart" && state === "down") {
    machine.start();
    change("up", "The store is up again, with all records.");
  } else if (kind === "pause" && state === "up") {
    machine.stop();
    change("paused", "The store is paused. Requests wait.");
  } else if (kind === "resume" && state === "paused") {
    machine.resume();
    change("up", "The store resumes and handles the waiting requests.");
  } else {
    log(cast, "store", "process", `The store is ${state}, so there is nothing to ${kind}.`);
  }
}

function onLink(cast: Cast, action: On<"cut" | "mend">): void {
  const { network } = cast.stage;
  const { node } = action;
  if (action.kind === "mend") {
    if (cast.candidate(node).link === "whole") {
      return log(cast, node, "network", `${node} is already connected to the store.`);
    }
    network.join(node, "store");
    network.join("store", node);
  } else {
    if (action.way !== "answers") network.cut(node, "store");
    if (action.way !== "requests") network.cut("store", node);
  }
  log(cast, node, "network", sentence(action), true);
}

function onClock(cast: Cast, action: On<"rate" | "jump">, candidate: Candidate): void {
  if (action.kind === "rate") {
    candidate.percent = action.percent;
  } else {
    if (action.ms < 0) candidate.wasSetBack = true;
    candidate.machine.jumpWall(action.ms);
  }
  log(cast, candidate.name, "clock", sentence(action), true);
}

function onMessage(cast: Cast, action: On<"drop" | "delay" | "duplicate" | "dropAnswer">): void {
  const { messages, stage } = cast;
  if (action.kind === "dropAnswer") {
    messages.dropNextAnswer(action.node, action.of);
    return log(cast, "you", "message", sentence(action));
  }
  const name = messages.nameOf(action.message);
  if (name === undefined) {
    return log(cast, "you", "message", `Message ${action.message} is no longer in flight.`);
  }
  // The network's watcher logs the loss.
  if (action.kind === "drop") stage.network.drop(action.message);
  else if (action.kind === "delay") {
    stage.network.delay(action.message, action.byMs);
    log(cast, "you", "message", `${upper(name)} will arrive ${duration(action.byMs)} later.`, true);
  } else {
    stage.network.duplicate(action.message, COPY_AFTER_MS);
    log(cast, "you", "message", `${upper(name)} will arrive twice.`, true);
  }
}

function resign(cast: Cast, successor: NodeName | undefined): void {
  const leader = cast.leader();
  if (!leader?.program) return log(cast, "you", "release", "There is no leader that could resign.");
  const next = successor && cast.candidate(successor);
  if (next && !next.program) return log(cast, "you", "release", `${next.name} is not running.`);
  const { program } = leader;
  const to = next && next !== leader ? ` and hands over to ${next.name}` : "";
  log(
    cast,
    leader.name,
    "release",
    `${leader.name} resigns${to}: it stops its work, then releases the lease.`,
    true,
  );
  leader.machine.process?.deliver(() => program.resign(next?.program?.holder));
}

function set(cast: Cast, action: On<"set">): void {
  const { stage } = cast;
  const before = stage.settings;
  stage.settings = fitSettings({ ...before, [action.setting]: action.value });
  cast.applyWeather();
  const value = stage.settings[action.setting];
  const isOfLeases = ["ttlMs", "renewEveryMs", "driftRatioPercent"].includes(action.setting);
  const when = isOfLeases ? "from the next lease of each process" : "from now on";
  log(cast, "you", "setting", `${upper(describeAction({ ...action, value }))}, ${when}.`, true);
  if (isOfLeases) cast.useSettings();
}

function log(cast: Cast, who: LogLine["who"], kind: LogLine["kind"], text: string, isStep = false) {
  cast.stage.log.add(who, kind, text, isStep);
}

function sentence(action: Action): string {
  return `${upper(describeAction(action))}.`;
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
