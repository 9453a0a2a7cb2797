import { it } from "vitest";

await new Promise(() => {});
it("is never collected", () => {});
