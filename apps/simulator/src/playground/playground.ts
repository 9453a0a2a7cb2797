/**
 * A run that the user watches, navigates and changes.
 *
 *   script ──▶ run ──── advances ────▶ shown moment ── action ──▶ script + action, the run continues
 *               ▲                        │
 *               └── restarts from the ───┘ back in time; an action there forks: later actions and
 *                   beginning              frames are dropped
 *
 * A simulated world cannot be copied or run backwards. It need not be: it follows from the script, and a
 * minute of it takes some hundredths of a second. A frame every SNAPSHOT_EVERY_MS is kept, up to
 * LONGEST_RUN_MS, so that the timeline can be dragged.
 */
import type { Action } from "./actions.js";
import type { Frame, LogLine } from "./frame.js";
import { Run } from "./run.js";
import { type Scenario, scenarioById } from "./scenarios.js";
import { LONGEST_RUN_MS, MOST_ACTIONS, type Script, ScriptError } from "./script.js";

const SNAPSHOT_EVERY_MS = 250;
/** A step ends at most this long after the log line that it goes to. */
const STEP_SLICE_MS = 50;
const LONGEST_STEP_MS = 60_000;

export class Playground {
  #script: Script;
  #run: Run;
  #frame: Frame;
  #log: readonly LogLine[] = [];
  #reachedMs = 0;
  /** The frame with index n is that of n * SNAPSHOT_EVERY_MS. */
  #snapshots: Frame[] = [];
  #tail: Promise<unknown> = Promise.resolve();
  /** A move that has not started and can still be redirected. */
  #move: { toMs: number; done: Promise<Frame> } | undefined;

  /** Does not run the script yet. */
  constructor(script: Script) {
    this.#script = script;
    this.#run = new Run(script);
    this.#frame = this.#run.frame();
  }

  /** The script with the actions so far. */
  get script(): Script {
    return this.#script;
  }

  get scenario(): Scenario {
    return scenarioById(this.#script.scenario);
  }

  /** The shown moment. */
  get frame(): Frame {
    return this.#frame;
  }

  get shownMs(): number {
    return this.#frame.atMs;
  }

  /** The latest moment that this branch has reached, in milliseconds of true time. */
  get reachedMs(): number {
    return this.#reachedMs;
  }

  /** The log of this branch; the lines below `frame.logEnd` are those up to the shown moment. */
  get log(): readonly LogLine[] {
    return this.#log;
  }

  /** The hash of the run up to the shown moment. Two runs of one script have the same. */
  get hash(): string {
    return this.#run.hash;
  }

  /**
   * Shows another moment, later or earlier. A further call redirects one that is still pending.
   * @param atMs rounded to whole milliseconds; from 0 to LONGEST_RUN_MS
   */
  runTo(atMs: number): Promise<Frame> {
    const toMs = Math.round(Math.min(LONGEST_RUN_MS, Math.max(0, atMs)));
    if (this.#move) {
      this.#move.toMs = toMs;
      return this.#move.done;
    }
    const move = { toMs, done: Promise.resolve(this.#frame) };
    move.done = this.#enqueue(() => {
      if (this.#move === move) this.#move = undefined;
      return this.#goTo(move.toMs);
    });
    this.#move = move;
    return move.done;
  }

  /** The recorded frame at that moment or up to SNAPSHOT_EVERY_MS before; null: none. Runs nothing. */
  peek(atMs: number): Frame | null {
    if (atMs > this.#reachedMs) return null;
    return this.#snapshots[Math.floor(atMs / SNAPSHOT_EVERY_MS)] ?? null;
  }

  /**
   * Performs an action at the shown moment. Later frames and actions are dropped; the scenario's own plan
   * stays.
   * @throws ScriptError if there are too many actions
   */
  perform(action: Action): Promise<Frame> {
    // Later moves must come after the action.
    this.#move = undefined;
    return this.#enqueue(() => this.#perform(action));
  }

  /**
   * Goes to the next step: a line of the log with `isStep`.
   * @param latestMs where to stop without one
   */
  step(latestMs = LONGEST_RUN_MS): Promise<Frame> {
    this.#move = undefined;
    return this.#enqueue(async () => {
      const endMs = Math.min(LONGEST_RUN_MS, latestMs, this.shownMs + LONGEST_STEP_MS);
      const from = this.#frame.logEnd;
      while (this.shownMs < endMs) {
        await this.#goTo(Math.min(endMs, this.shownMs + STEP_SLICE_MS));
        if (this.#run.log.lines.some(({ index, isStep }) => index >= from && isStep)) break;
      }
      return this.#frame;
    });
  }

  #enqueue(work: () => Promise<Frame>): Promise<Frame> {
    const done = this.#tail.then(work);
    // The caller gets the failure; the next call runs anyway.
    this.#tail = done.catch(() => {});
    return done;
  }

  async #goTo(toMs: number): Promise<Frame> {
    if (toMs < this.#run.nowMs) this.#run = new Run(this.#script);
    const run = this.#run;
    for (;;) {
      const nextMs = this.#snapshots.length * SNAPSHOT_EVERY_MS;
      if (nextMs > toMs) break;
      await run.runTo(nextMs);
      this.#snapshots.push(run.frame());
    }
    await run.runTo(toMs);
    return this.#show();
  }

  async #perform(action: Action): Promise<Frame> {
    const atMs = this.shownMs;
    const actions = this.#script.actions.filter((done) => done.atMs <= atMs);
    if (actions.length >= MOST_ACTIONS) throw new ScriptError(`More than ${MOST_ACTIONS} actions.`);
    // The current run would still perform the dropped actions.
    const hasDropped = actions.length < this.#script.actions.length;
    if (hasDropped) this.#run = new Run({ ...this.#script, actions });
    this.#script = { ...this.#script, actions: [...actions, { atMs, action }] };
    this.#snapshots.length = Math.min(this.#snapshots.length, Math.ceil(atMs / SNAPSHOT_EVERY_MS));
    this.#reachedMs = atMs;
    // The script's own actions for this moment come first.
    await this.#run.runTo(atMs);
    await this.#run.perform(action);
    if (atMs % SNAPSHOT_EVERY_MS === 0) this.#snapshots.push(this.#run.frame());
    return this.#show();
  }

  #show(): Frame {
    this.#frame = this.#run.frame();
    if (this.shownMs >= this.#reachedMs) {
      this.#reachedMs = this.shownMs;
      this.#log = this.#run.log.lines;
    }
    return this.#frame;
  }
}
