/**
 * A run that a person watches, moves about in and interferes with.
 *
 *   script ──▶ course ──runs on──▶ shown moment ── act ──▶ script + act, the same course goes on
 *                 ▲                     │
 *                 └── again from the ───┘ back in time; an act there forks: what was done and seen
 *                     beginning           after it is dropped
 *
 * The world of a course cannot be copied or run backwards, and need not be: it follows from the
 * script, and a minute of it runs in some hundredths of a second. Kept are frames of the whole course,
 * one each SNAPSHOT_EVERY_MS, so that a timeline can be dragged: at most as many as fit into
 * LONGEST_RUN_MS.
 */
import type { Act } from "./acts.js";
import { Course } from "./course.js";
import type { Frame, LogLine } from "./frame.js";
import { type Scenario, scenarioById } from "./scenarios.js";
import { LONGEST_RUN_MS, MOST_ACTS, type Script, ScriptError } from "./script.js";

const SNAPSHOT_EVERY_MS = 250;
/** A step ends within this after what it was taken for. */
const STEP_SLICE_MS = 50;
const LONGEST_STEP_MS = 60_000;

export class Playground {
  #script: Script;
  #course: Course;
  #frame: Frame;
  #log: readonly LogLine[] = [];
  #reachedMs = 0;
  /** That of index n was at n * SNAPSHOT_EVERY_MS. */
  #snapshots: Frame[] = [];
  #tail: Promise<unknown> = Promise.resolve();
  /** A move that has not begun, and may still be sent elsewhere. */
  #move: { toMs: number; done: Promise<Frame> } | undefined;

  /** Runs nothing yet. */
  constructor(script: Script) {
    this.#script = script;
    this.#course = new Course(script);
    this.#frame = this.#course.frame();
  }

  /** With what has been done so far. */
  get script(): Script {
    return this.#script;
  }

  get scenario(): Scenario {
    return scenarioById(this.#script.scenario);
  }

  /** Of the shown moment. */
  get frame(): Frame {
    return this.#frame;
  }

  get shownMs(): number {
    return this.#frame.atMs;
  }

  /** The latest moment of this course that was seen, in milliseconds of true time. */
  get reachedMs(): number {
    return this.#reachedMs;
  }

  /** Of all that was seen of this course; up to the shown moment: those below `frame.logEnd`. */
  get log(): readonly LogLine[] {
    return this.#log;
  }

  /** Of the course up to the shown moment: two runs of one script have the same. */
  get hash(): string {
    return this.#course.hash;
  }

  /**
   * Shows another moment, later or earlier. A call that waits for its turn is sent on by the next one.
   * @param atMs rounded to whole milliseconds; from 0 to LONGEST_RUN_MS
   */
  runTo(atMs: number): Promise<Frame> {
    const toMs = Math.round(Math.min(LONGEST_RUN_MS, Math.max(0, atMs)));
    if (this.#move) {
      this.#move.toMs = toMs;
      return this.#move.done;
    }
    const move = { toMs, done: Promise.resolve(this.#frame) };
    move.done = this.#inTurn(() => {
      if (this.#move === move) this.#move = undefined;
      return this.#goTo(move.toMs);
    });
    this.#move = move;
    return move.done;
  }

  /** What was seen at that moment, or up to SNAPSHOT_EVERY_MS before; null: nothing was. Runs nothing. */
  peek(atMs: number): Frame | null {
    if (atMs > this.#reachedMs) return null;
    return this.#snapshots[Math.floor(atMs / SNAPSHOT_EVERY_MS)] ?? null;
  }

  /**
   * Does something at the shown moment. If later ones were seen, they are dropped, and with them what a
   * person did then; the scenario's own plan stays.
   * @throws ScriptError when too much has been done
   */
  act(act: Act): Promise<Frame> {
    // What is asked for from now on comes after it.
    this.#move = undefined;
    return this.#inTurn(() => this.#act(act));
  }

  /**
   * Goes on to the next turn of the story: a line of the log that is a step.
   * @param latestMs where to end if none comes before
   */
  step(latestMs = LONGEST_RUN_MS): Promise<Frame> {
    this.#move = undefined;
    return this.#inTurn(async () => {
      const endMs = Math.min(LONGEST_RUN_MS, latestMs, this.shownMs + LONGEST_STEP_MS);
      const from = this.#frame.logEnd;
      while (this.shownMs < endMs) {
        await this.#goTo(Math.min(endMs, this.shownMs + STEP_SLICE_MS));
        if (this.#course.log.lines.some(({ index, isStep }) => index >= from && isStep)) break;
      }
      return this.#frame;
    });
  }

  #inTurn(work: () => Promise<Frame>): Promise<Frame> {
    const done = this.#tail.then(work);
    // Whoever called hears of a failure; the next one has its turn all the same.
    this.#tail = done.catch(() => {});
    return done;
  }

  async #goTo(toMs: number): Promise<Frame> {
    if (toMs < this.#course.nowMs) this.#course = new Course(this.#script);
    const course = this.#course;
    for (;;) {
      const nextMs = this.#snapshots.length * SNAPSHOT_EVERY_MS;
      if (nextMs > toMs) break;
      await course.runTo(nextMs);
      this.#snapshots.push(course.frame());
    }
    await course.runTo(toMs);
    return this.#show();
  }

  async #act(act: Act): Promise<Frame> {
    const atMs = this.shownMs;
    const acts = this.#script.acts.filter((done) => done.atMs <= atMs);
    if (acts.length >= MOST_ACTS) throw new ScriptError(`More than ${MOST_ACTS} acts.`);
    // The course that was shown would go on to do what is dropped.
    const hasDropped = acts.length < this.#script.acts.length;
    if (hasDropped) this.#course = new Course({ ...this.#script, acts });
    this.#script = { ...this.#script, acts: [...acts, { atMs, act }] };
    this.#snapshots.length = Math.min(this.#snapshots.length, Math.ceil(atMs / SNAPSHOT_EVERY_MS));
    this.#reachedMs = atMs;
    // Nothing has run yet: what the script says for this very moment comes first.
    await this.#course.runTo(atMs);
    await this.#course.perform(act);
    if (atMs % SNAPSHOT_EVERY_MS === 0) this.#snapshots.push(this.#course.frame());
    return this.#show();
  }

  #show(): Frame {
    this.#frame = this.#course.frame();
    if (this.shownMs >= this.#reachedMs) {
      this.#reachedMs = this.shownMs;
      this.#log = this.#course.log.lines;
    }
    return this.#frame;
  }
}
