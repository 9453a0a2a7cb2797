/** The examples of docs/http.md against a live server and its /openapi.json. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PROBLEMS } from "../src/protocol/index.js";
import { readHttpDocument, readProblemTable } from "./support/http-document.js";
import { type LiveServer, openLiveServer, play } from "./support/http-story.js";

const markdown = readFileSync(new URL("../docs/http.md", import.meta.url), "utf8");
const sections = readHttpDocument(markdown).filter(({ steps }) => steps.length > 0);

let server: LiveServer;
beforeEach(async () => {
  server = await openLiveServer();
});
afterEach(() => server.close());

/** Filled by the sections, in front of the test that asks whether anything is missing. */
const shown = new Set<string>();

describe("docs/http.md", () => {
  it.each(sections.map((section) => [section.title, section] as const))(
    "%s",
    async (_, section) => {
      for (const { method, template } of await play(section, server)) {
        shown.add(`${method} ${template}`);
      }
    },
  );

  it("shows every operation with an answer", () => {
    const all = server.openApi.operations.map(({ method, template }) => `${method} ${template}`);
    expect(all.length).toBeGreaterThan(30);
    expect(all.filter((operation) => !shown.has(operation))).toEqual([]);
  });

  it("has every problem with its status in its table, and no other", () => {
    const listed = readProblemTable(markdown).flatMap(({ line, status, codes }) =>
      codes.map((code) => ({ code, status, line })),
    );
    const known = new Map(Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]));
    const unfounded = listed
      .filter(({ code, status }) => known.get(code) !== status)
      .map(({ code, status, line }) => `docs/http.md:${line}: ${code} is not of ${status}`);
    expect(unfounded).toEqual([]);
    const missing = [...known.keys()].filter((code) => !listed.some((each) => each.code === code));
    expect(missing).toEqual([]);
  });
});
