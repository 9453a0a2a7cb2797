/** Answers that wait to be read, by tenant: they fill the memory of this instance, however slowly they are read. */
import type { Answer } from "../request.js";

/** Four of the largest answers, which are claims. */
export const UNREAD_BYTES = 64 * 1_024 * 1_024;

export class UnreadAnswers {
  readonly #answers = new Map<string, Set<Answer>>();

  isFull(tenant: string): boolean {
    let bytes = 0;
    for (const { unsent } of this.#answers.get(tenant) ?? []) bytes += unsent();
    return bytes >= UNREAD_BYTES;
  }

  /** Counts an answer until it ends. */
  add(tenant: string, answer: Answer, ended: () => void): void {
    const answers = this.#answers.get(tenant) ?? new Set();
    this.#answers.set(tenant, answers.add(answer));
    answer.onEnd(() => {
      answers.delete(answer);
      if (answers.size === 0) this.#answers.delete(tenant);
      ended();
    });
  }
}
