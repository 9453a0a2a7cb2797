/** What is reported of a collector that fails and recovers. */
import { expect, test } from "vitest";
import { type ExportNotice, noticing } from "./export-notices.js";

type Result = { readonly code: number; readonly error?: Error };

test("the first failure of each outage is reported, and its end; the exporter's caller gets each result", () => {
  const notices: ExportNotice[] = [];
  const results: Result[] = [];
  let next: Result = { code: 0 };
  const exporter = {
    export: (_batch: string, done: (result: Result) => void) => done(next),
  };
  const noticed = noticing(exporter, "traces", (notice) => notices.push(notice));
  const send = (result: Result) => {
    next = result;
    noticed.export("batch", (one) => results.push(one));
  };
  const error = new Error("refused");
  const script = [0, 1, 1, 0, 0, 1, 0].map((code) => (code ? { code, error } : { code }));
  for (const result of script) send(result);
  const down = {
    event: "export_failed",
    message: "the collector does not take traces",
    err: error,
  };
  const up = { event: "export_resumed", message: "the collector takes traces again" };
  expect(notices).toEqual([down, up, down, up]);
  expect(results).toEqual(script);
});
