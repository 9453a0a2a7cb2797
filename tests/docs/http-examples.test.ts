/** The examples of docs/http.md against a live server and its /openapi.json. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PROBLEMS } from "../../packages/leasehold/src/wire/index.js";
import {
  readHeadings,
  readHttpDocument,
  readProblemTable,
  readRouteTables,
} from "../support/server/http-document.js";
import { type LiveServer, openLiveServer, play } from "../support/server/http-story.js";

const markdown = readFileSync(new URL("../../docs/http.md", import.meta.url), "utf8");
const sections = readHttpDocument(markdown).filter(({ steps }) => steps.length > 0);

let server: LiveServer;
beforeEach(async () => {
  server = await openLiveServer();
});
afterEach(() => server.close());

describe("docs/http.md", () => {
  it.each(sections.map((section) => [section.title, section] as const))("%s", (_, section) =>
    play(section, server),
  );

  it("shows every operation with an answer, under a heading, and in a table", () => {
    const all = server.openApi.operations.map(({ method, template }) => `${method} ${template}`);
    expect(all.length).toBeGreaterThan(30);
    const shown = sections.flatMap(({ steps }) =>
      steps.flatMap((step) => {
        if (step.kind !== "example" || step.answer.status >= 400) return [];
        const operation = server.openApi.find(step.request.method, step.request.path);
        return operation ? [`${operation.method} ${operation.template}`] : [];
      }),
    );
    expect(all.filter((operation) => !shown.includes(operation))).toEqual([]);
    expect([...readHeadings(markdown)].sort()).toEqual([...all].sort());
    expect([...readRouteTables(markdown)].sort()).toEqual([...all].sort());
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

describe("the check of the examples", () => {
  const added = (answer: string, request = '{ "task_data": 1 }') =>
    `## Tasks\n\`\`\`http\nPOST /api/tasks\n\n${request}\n\`\`\`\n\n\`\`\`http\n${answer}\n\`\`\`\n`;
  const CREATED = '{ "id": "019d6c97-05d0-7491-99b4-71393dfe0e45", "status": "enqueued" }';
  const ID = "/api/tasks/019d6c97-05d0-7491-99b4-71393dfe0e45";
  const example = (request: string, answer: string) =>
    `\`\`\`http\n${request}\n\`\`\`\n\`\`\`http\n${answer}\n\`\`\`\n`;
  const judge = async (text: string) => {
    for (const section of readHttpDocument(text)) await play(section, server);
  };

  it("lets the names of one answer stand in the next request", async () => {
    const cancel = example(
      `POST ${ID}/cancel`,
      `HTTP/1.1 200 OK\n\n{ "id": "${ID.slice(11)}", "state": "cancelled" }`,
    );
    await judge(added(`HTTP/1.1 201 Created\n\n${CREATED}`) + cancel);
  });

  it.each([
    ["a status", added(`HTTP/1.1 200 OK\n\n${CREATED}`), "status is 201, printed is 200"],
    ["a header", added(`HTTP/1.1 201 Created\nAllow: GET\n\n${CREATED}`), "allow is missing"],
    ["a missing member", added('HTTP/1.1 201 Created\n\n{ "status": "enqueued" }'), ".id is"],
    [
      "a surplus member",
      added(`HTTP/1.1 201 Created\n\n${CREATED.replace("}", ', "state": "pending" }')}`),
      ".state is missing",
    ],
    [
      "an id of another form",
      added('HTTP/1.1 201 Created\n\n{ "id": "17", "status": "enqueued" }'),
      'printed is "17"',
    ],
    [
      "another constant",
      added(`HTTP/1.1 201 Created\n\n${CREATED.replace("enqueued", "duplicate")}`),
      'printed is "duplicate"',
    ],
    [
      "a route that is none",
      `## Tasks\n${example("GET /api/tsaks", "HTTP/1.1 200 OK")}`,
      "the status is 404, printed is 200",
    ],
    [
      "a query parameter that the route does not have",
      `## Tasks\n${example("GET /api/tasks/counts?deep=true", 'HTTP/1.1 200 OK\n\n{ "…": "…" }')}`,
      "the status is 422, printed is 200",
    ],
    [
      "a command that fails",
      "## Tasks\n```sh\ncurl -s localhost:4040/api/tsaks\n```\n",
      "docs/http.md:2:",
    ],
    ["a request without an answer", "## A\n```http\nGET /healthz\n```\n", "docs/http.md:2:"],
    ["an answer without a request", "## A\n```http\nHTTP/1.1 200 OK\n```\n", "docs/http.md:2:"],
    ["a fence that does not end", "## A\n\n```http\nGET /healthz\n", "docs/http.md:3:"],
    [
      "a body right after the headers",
      `## A\n${example("POST /api/tasks\n{}", "HTTP/1.1 201 Created")}`,
      "docs/http.md:4: not a header",
    ],
  ])("refuses %s", async (_, text, problem) => {
    await expect(judge(text)).rejects.toThrow(problem);
  });

  it.each([
    ["a wrong type", { id: 17, status: "enqueued" }],
    ["a value out of the enumeration", { id: "a", status: "added" }],
    ["a missing member", { id: "a" }],
    ["an undocumented member", { id: "a", status: "enqueued", state: "pending" }],
  ])("refuses an answer with %s", (_, body) => {
    const { openApi } = server;
    const operation = openApi.find("POST", "/api/tasks");
    if (!operation) throw new Error("the operation is there");
    const check = (answer: unknown) =>
      openApi.checkAnswer(operation, 201, "application/json", answer);
    expect(check({ id: "a", status: "enqueued" })).toEqual([]);
    expect(check(body)).not.toEqual([]);
  });
});
