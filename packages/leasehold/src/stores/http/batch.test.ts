import { expect, test } from "vitest";
import { LIMITS } from "../../wire/index.js";
import { chunked } from "./batch.js";

test("chunks are JSON arrays within the limit, in order", () => {
  const items = Array.from({ length: 2_100 }, (_, index) => ({
    index,
    text: "é".repeat(index % 9),
  }));
  for (const maxBytes of [100, 1_000, 1_000_000]) {
    const chunks = chunked(items, maxBytes);
    expect(chunks.flatMap(({ body }) => JSON.parse(body) as unknown[])).toEqual(items);
    for (const { body, count } of chunks) {
      expect(JSON.parse(body)).toHaveLength(count);
      expect(count).toBeLessThanOrEqual(LIMITS.batch);
      expect(new TextEncoder().encode(body).length).toBeLessThanOrEqual(maxBytes);
    }
  }
  expect(chunked(["x".repeat(100)], 10), "one larger item goes alone").toHaveLength(1);
  expect(chunked([], 10)).toEqual([]);
  const few = chunked(items, 1_000_000, LIMITS.revocations);
  expect(few.map(({ count }) => count)).toEqual(Array.from({ length: 21 }, () => 100));
});
