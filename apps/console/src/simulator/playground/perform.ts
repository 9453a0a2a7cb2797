/** Acts of a person, done to the world. What cannot be done is told, and changes nothing. */
import type { Act } from "./acts.js";
import type { Candidate } from "./candidate.js";
import type { LogLine, ProcessState } from "./frame.js";
import type { Ledger } from "./ledger.js";
import type { Messages } from "./messages.js";
import { fitSettings, type NodeName } from "./settings.js";
import type { Stage } from "./stage.js";
import { describeAct, duration } from "./words.js";

/** What acts reach. */
export interface Cast {
  readonly stage: Stage;
  readonly ledger: Ledger;
  readonly messages: Messages;
  candidate(name: NodeName): Candidate;
  /** Who does the leader's work now, standing still or not. */
  leader(): Candidate | undefined;
  start(candidate: Candidate): void;
  /** Processes ask for their next lease with the settings in force. */
  useSettings(): void;
  /** Messages take and get lost as the settings say. */
  applyWeather(): void;
  /** Of the store's process. */
  storeState: Exclude<ProcessState, "suspended">;
}

/** How long a second copy arrives after the first. */
const COPY_AFTER_MS = 30;

export function perform(cast: Cast, act: Act): void {
  switch (act.kind) {
    case "crash":
    case "restart":
    case "pause":
    case "suspend":
    case "resume":
      if (act.node === "store") onStore(cast, act.kind);
      else onProcess(cast, act, cast.candidate(act.node));
      break;
    case "cut":
    case "mend":
      onLink(cast, act);
      break;
    case "rate":
    case "jump":
      onClock(cast, act, cast.candidate(act.node));
      break;
    case "drop":
    case "delay":
    case "duplicate":
    case "dropAnswer":
      onMessage(cast, act);
      break;
    case "expire":
      if (!cast.ledger.expire())
        say(cast, "store", "expire", "There is no lease that could expire.");
      break;
    case "revoke":
      cast.ledger.revoke(act.free);
      break;
    case "resign":
      resign(cast, act.successor);
      break;
    case "fence":
      cast.stage.settings = { ...cast.stage.settings, fenced: act.on };
      say(cast, "resource", "setting", sentence(act), true);
      break;
    case "set":
      set(cast, act);
  }
}

type On<Kind extends Act["kind"]> = Extract<Act, { kind: Kind }>;

function onProcess(
  cast: Cast,
  act: On<"crash" | "restart" | "pause" | "suspend" | "resume">,
  candidate: Candidate,
): void {
  const { name, state, program } = candidate;
  const nothing = (why: string) => say(cast, name, "process", `${name} ${why}.`);
  const belief = program?.belief;
  const had = belief ? ` It holds token ${belief.token}, and the store does not know.` : "";
  switch (act.kind) {
    case "crash":
      if (!program) return nothing("does not run, so it cannot crash");
      candidate.crash();
      return say(cast, name, "process", `${sentence(act)}${had.replace("holds", "held")}`, true);
    case "restart":
      if (program) return nothing("runs already");
      cast.start(candidate);
      return say(cast, name, "process", `${sentence(act)} It knows nothing of what it was.`, true);
    case "pause":
      if (!program || state !== "up") return nothing("does not run now, so it cannot be paused");
      if (!act.midWrite) break;
      program.onceChecked(() => {
        if (candidate.program !== program || candidate.state !== "up") return;
        candidate.stand("paused");
        const text = `${name} stands still: a long garbage collection. It had just checked its lease, and was about to write.`;
        say(cast, name, "process", text, true);
      });
      return say(cast, name, "process", `${name} will be paused in the middle of its next write.`);
    case "suspend":
      if (!program || state !== "up") return nothing("does not run now, so it cannot be suspended");
      break;
    case "resume": {
      if (state !== "paused" && state !== "suspended") return nothing("does not stand still");
      const stoodMs = candidate.resume();
      const still = belief ? ` It still believes in token ${belief.token}.` : "";
      return say(
        cast,
        name,
        "process",
        `${name} goes on after ${duration(stoodMs)}.${still}`,
        true,
      );
    }
  }
  candidate.stand(act.kind === "pause" ? "paused" : "suspended");
  const how = act.kind === "pause" ? "stands still: a long garbage collection" : "is suspended";
  const clocks = act.kind === "pause" ? "" : " One of its clocks stops with it.";
  say(cast, name, "process", `${name} ${how}.${clocks}${had}`, true);
}

function onStore(cast: Cast, kind: "crash" | "restart" | "pause" | "suspend" | "resume"): void {
  const { machine } = cast.ledger;
  const change = (state: Cast["storeState"], text: string) => {
    cast.storeState = state;
    say(cast, "store", "process", text, true);
  };
  const { storeState: state } = cast;
  if (kind === "crash" && state !== "down") {
    machine.resume();
    machine.crash();
    change("down", "The store is down: nobody can renew. It keeps its records.");
  } else if (kind === "restart" && state === "down") {
    machine.start();
    change("up", "The store is back, with all records.");
  } else if (kind === "pause" && state === "up") {
    machine.stop();
    change("paused", "The store stands still: what it is asked waits.");
  } else if (kind === "resume" && state === "paused") {
    machine.resume();
    change("up", "The store goes on, and decides what has come meanwhile.");
  } else {
    say(cast, "store", "process", `The store is ${state}: there is nothing to ${kind}.`);
  }
}

function onLink(cast: Cast, act: On<"cut" | "mend">): void {
  const { network } = cast.stage;
  const { node } = act;
  if (act.kind === "mend") {
    if (cast.candidate(node).link === "whole") {
      return say(cast, node, "network", `${node} reaches the store already.`);
    }
    network.join(node, "store");
    network.join("store", node);
  } else {
    if (act.way !== "answers") network.cut(node, "store");
    if (act.way !== "requests") network.cut("store", node);
  }
  say(cast, node, "network", sentence(act), true);
}

function onClock(cast: Cast, act: On<"rate" | "jump">, candidate: Candidate): void {
  if (act.kind === "rate") {
    candidate.percent = act.percent;
  } else {
    if (act.ms < 0) candidate.wasSetBack = true;
    candidate.machine.jumpWall(act.ms);
  }
  say(cast, candidate.name, "clock", sentence(act), true);
}

function onMessage(cast: Cast, act: On<"drop" | "delay" | "duplicate" | "dropAnswer">): void {
  const { messages, stage } = cast;
  if (act.kind === "dropAnswer") {
    messages.dropNextAnswer(act.node, act.of);
    return say(cast, "you", "message", sentence(act));
  }
  const name = messages.nameOf(act.message);
  if (name === undefined) {
    return say(cast, "you", "message", `Message ${act.message} is not on its way any more.`);
  }
  // What is lost is told by whoever watches the network.
  if (act.kind === "drop") stage.network.drop(act.message);
  else if (act.kind === "delay") {
    stage.network.delay(act.message, act.byMs);
    say(cast, "you", "message", `${upper(name)} will come ${duration(act.byMs)} later.`, true);
  } else {
    stage.network.duplicate(act.message, COPY_AFTER_MS);
    say(cast, "you", "message", `${upper(name)} will arrive twice.`, true);
  }
}

function resign(cast: Cast, successor: NodeName | undefined): void {
  const leader = cast.leader();
  if (!leader?.program) return say(cast, "you", "release", "Nobody leads who could resign.");
  const heir = successor && cast.candidate(successor);
  if (heir && !heir.program) return say(cast, "you", "release", `${heir.name} does not run.`);
  const { program } = leader;
  const to = heir && heir !== leader ? ` and hands over to ${heir.name}` : "";
  say(
    cast,
    leader.name,
    "release",
    `${leader.name} resigns${to}: its work stops, then the lease is given back.`,
    true,
  );
  leader.machine.process?.deliver(() => program.resign(heir?.program?.holder));
}

function set(cast: Cast, act: On<"set">): void {
  const { stage } = cast;
  const before = stage.settings;
  stage.settings = fitSettings({ ...before, [act.setting]: act.value });
  cast.applyWeather();
  const value = stage.settings[act.setting];
  const isOfLeases = ["ttlMs", "renewEveryMs", "driftRatioPercent"].includes(act.setting);
  const when = isOfLeases ? "with the next lease of each process" : "from now on";
  say(cast, "you", "setting", `${upper(describeAct({ ...act, value }))}, ${when}.`, true);
  if (isOfLeases) cast.useSettings();
}

function say(cast: Cast, who: LogLine["who"], kind: LogLine["kind"], text: string, isStep = false) {
  cast.stage.log.tell(who, kind, text, isStep);
}

function sentence(act: Act): string {
  return `${upper(describeAct(act))}.`;
}

function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
