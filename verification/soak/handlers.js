/** What the workers over HTTP do: a little, and most of it waiting. */
import { setTimeout as sleep } from "node:timers/promises";
import { defineTask } from "leasehold";

export default [
  defineTask("soak").handle(async ({ number }) => {
    await sleep(number % 20);
    return { number };
  }),
];
