import { expect, it, vi } from "vitest";
import type { Telemetry } from "../env/index.js";
import { forgetTaskToken, noteTaskToken } from "../lease/index.js";
import { memoryGuard, type Refusal } from "./index.js";

it("lets a newer and an equal token pass, and refuses an older one and reports it", async () => {
  const refused: Refusal[] = [];
  const guard = memoryGuard({ onRefused: (refusal) => refused.push(refusal) });
  const written: number[] = [];
  const write = (token: number, resource = "r") =>
    guard.guard(resource, token, () => written.push(token));
  await write(10);
  await write(10);
  await write(11);
  await expect(write(10)).rejects.toMatchObject({
    code: "STALE_TOKEN",
    resource: "r",
    token: 10,
    lastToken: 11,
  });
  await write(1, "other");
  expect(written).toEqual([10, 10, 11, 1]);
  expect(guard.refusals).toBe(1);
  expect(refused).toEqual([{ namespace: "default", resource: "r", token: 10, lastToken: 11 }]);
});

it("keeps a newer holder waiting while an older one writes", async () => {
  const guard = memoryGuard();
  const order: string[] = [];
  let finish = () => {};
  const older = guard.guard("r", 10, async () => {
    order.push("older begins");
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    order.push("older ends");
    throw new Error("and fails");
  });
  const newer = guard.guard("r", 11, () => order.push("newer"));
  const late = guard.guard("r", 10, () => order.push("late"));
  await expect.poll(() => order).toEqual(["older begins"]);
  finish();
  await expect(older).rejects.toThrow("and fails");
  await newer;
  await expect(late).rejects.toMatchObject({ code: "STALE_TOKEN" });
  expect(order).toEqual(["older begins", "older ends", "newer"]);
});

it("keeps its tokens when an argument is wrong", async () => {
  const guard = memoryGuard();
  await guard.guard("r", 10, () => {});
  await expect(guard.guard("r", 11, undefined as never)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    path: "work",
  });
  expect(await guard.guard("r", 10, () => "written")).toBe("written");
});

it("says what is wrong, and lets no listener mask a refusal", async () => {
  const guard = memoryGuard({
    onRefused() {
      throw new Error("listener");
    },
  });
  await expect(guard.guard("", 1, () => {})).rejects.toMatchObject({ path: "resource" });
  await expect(guard.guard("r", 0, () => {})).rejects.toMatchObject({ path: "token" });
  const elsewhere = memoryGuard({ namespace: "" });
  await expect(elsewhere.guard("r", 1, () => {})).rejects.toMatchObject({ path: "namespace" });
  await guard.guard("r", 2, () => {});
  await expect(guard.guard("r", 1, () => {})).rejects.toMatchObject({ code: "STALE_TOKEN" });
  expect(() => memoryGuard({ onRefused: 1 as never })).toThrow(/onRefused/);
});

it("counts its refusals in the telemetry", async () => {
  const counted: string[] = [];
  const guard = memoryGuard({
    telemetry: { count: (name: string) => counted.push(name) } as unknown as Telemetry,
  });
  await guard.guard("r", 2, () => {});
  expect(counted).toEqual([]);
  await expect(guard.guard("r", 1, () => {})).rejects.toMatchObject({ code: "STALE_TOKEN" });
  expect(counted).toEqual(["leasehold.fence.refusals"]);
});

it("keeps the token of each of many resources", async () => {
  const guard = memoryGuard();
  const resources = Array.from({ length: 5_000 }, (_, index) => `r${index}`);
  for (const resource of resources) await guard.guard(resource, 2, () => {});
  for (const resource of resources) {
    await expect(guard.guard(resource, 1, () => {})).rejects.toMatchObject({ lastToken: 2 });
  }
  expect(guard.refusals).toBe(resources.length);
});

it("warns of a task's token for another resource: other tasks of its claim have it too", async () => {
  const emit = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const token = 1_700_000_000_000_000;
  noteTaskToken("task:a", token);
  const guard = memoryGuard();
  await guard.guard("task:a", token, () => {});
  expect(emit).not.toHaveBeenCalled();
  await guard.guard("account:7", token, () => {});
  await guard.guard("account:7", token, () => {});
  expect(emit.mock.calls.map(([, options]) => options)).toMatchObject([
    { code: "LEASEHOLD_W_TASK_TOKEN", detail: expect.stringContaining("task: task:a") },
  ]);
  forgetTaskToken("task:a", token);
  await guard.guard("account:8", token, () => {});
  expect(emit).toHaveBeenCalledOnce();
  emit.mockRestore();
});
