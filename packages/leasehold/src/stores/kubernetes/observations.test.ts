/** Which version of an object a client has seen, and since when. */
import { expect, it } from "vitest";
import { Observations } from "./observations.js";

const version = (revision: number, holderIdentity = "h") => ({
  metadata: { name: "r", resourceVersion: String(revision) },
  spec: { holderIdentity },
});

it("keeps the newest version, in whatever order the answers arrive", () => {
  const observations = new Observations();
  observations.note(version(10), 100);
  expect(observations.note(version(9), 200).receivedMs).toBe(200);
  expect(observations.get("r")).toMatchObject({ object: version(10), receivedMs: 100 });
  observations.note(version(11), 300);
  expect(observations.get("r")).toMatchObject({ object: version(11), receivedMs: 300 });
});

it("counts a version from when it was first seen, and what it wrote itself from before the write", () => {
  const observations = new Observations();
  observations.note(version(1), 100, 90);
  const again = { receivedMs: 100, trustFromMs: 90 };
  expect(observations.note(version(1), 500)).toMatchObject(again);
  expect(observations.get("r")).toMatchObject(again);
  observations.note(version(2), 600);
  expect(observations.get("r")).toMatchObject({ receivedMs: 600, trustFromMs: null });
});

it("remembers no object that is free or deleted", () => {
  const observations = new Observations();
  observations.note(version(1), 100);
  observations.note(version(2, ""), 200);
  expect(observations.get("r")).toBeUndefined();
  observations.note(version(3), 300);
  observations.forget("r");
  expect(observations.get("r")).toBeUndefined();
});
