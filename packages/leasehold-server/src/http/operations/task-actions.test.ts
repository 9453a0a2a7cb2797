/** Actions on the tasks that match a filter. */
import { systemEnv, taskIds } from "leasehold/internal";
import { expect, test } from "vitest";
import { openTestApp } from "../../../../../tests/support/app.js";
import { newTaskOf } from "../../../../leasehold/src/testing/task-suite/new-task.js";

/** A bulk action reads 100 pages of 200 tasks at most. */
const NEWER = 20_001;

test("a bulk action that stops before it has read all tasks says that there may be more", async () => {
  const { ask, stores } = await openTestApp();
  const newId = taskIds(systemEnv.clock, systemEnv.random);
  const added = Array.from({ length: NEWER }, () =>
    newTaskOf({ namespace: "default", id: newId() }),
  );
  await stores.tasks.enqueue(added);
  const bulk = (createdBefore: string) =>
    ask("POST", "/api/tasks/bulk", {
      operation: "cancel",
      filter: { createdBefore },
      reason: "old ones",
    });
  expect(await bulk("2020-01-01T00:00:00.000Z")).toMatchObject({
    status: 200,
    body: { matched: 0, changed: 0, more: true },
  });
  await stores.tasks.cancel(added.slice(0, NEWER - 100));
  expect(await bulk("2020-01-01T00:00:00.000Z")).toMatchObject({
    body: { matched: 0, changed: 0, more: false },
  });
});
