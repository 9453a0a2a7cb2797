/** The command palette (Ctrl K): finds pages, resources and tasks, and runs actions. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { classNames, Icon, type IconName, Modal, useTheme } from "leasehold-ui";
import { type KeyboardEvent, useId, useState } from "react";
import { get } from "../data/api.js";
import { PAGES } from "./pages.js";

interface Command {
  readonly name: string;
  readonly kind: string;
  readonly icon: IconName;
  readonly run: () => void;
}

interface Props {
  readonly open: boolean;
  readonly onOpenChange: (open: boolean) => void;
}

export function Palette({ open, onOpenChange }: Props) {
  return (
    <Modal
      {...{ open, onOpenChange, label: "Command palette" }}
      className="mx-auto mt-[12dvh] w-[calc(100vw-2rem)] max-w-xl overflow-hidden rounded-xl border p-0 shadow-raised"
    >
      <Choices close={() => onOpenChange(false)} />
    </Modal>
  );
}

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/i;

function Choices({ close }: { readonly close: () => void }) {
  const [text, setText] = useState("");
  const [marked, setMarked] = useState(0);
  const listId = useId();
  const found = useFound(text.trim());
  const at = Math.min(marked, found.length - 1);
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setMarked((at + step + found.length) % Math.max(1, found.length));
    }
    if (event.key === "Enter") run(found[at]);
  };
  return (
    <>
      <div className="flex items-center gap-2 border-b px-4">
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Search pages, resources, tasks and actions"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={found[at] && `${listId}-${at}`}
          autoFocus
          placeholder="Search pages, resources or task ids…"
          className="h-12 w-full bg-transparent text-sm outline-none placeholder:text-muted"
          value={text}
          onChange={({ target }) => {
            setText(target.value);
            setMarked(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <ul id={listId} role="listbox" aria-label="Results" className="max-h-80 overflow-y-auto p-2">
        {found.map((command, index) => (
          <li
            key={`${command.kind} ${command.name}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === at}
            onPointerMove={() => setMarked(index)}
            onClick={() => run(command)}
            onKeyDown={onKeyDown}
            className={classNames(
              "flex cursor-pointer items-center gap-2.5 rounded-md px-2.5 py-2 text-sm",
              index === at && "bg-accent-soft text-accent",
            )}
          >
            <Icon name={command.icon} />
            <span className="min-w-0 truncate">{command.name}</span>
            <span className="ml-auto text-xs text-muted">{command.kind}</span>
          </li>
        ))}
        {found.length === 0 && (
          <li className="px-2.5 py-6 text-center text-sm text-muted">No results</li>
        )}
      </ul>
    </>
  );
}

function useFound(text: string): readonly Command[] {
  const navigate = useNavigate();
  const { dark, choose } = useTheme();
  const resources = useQuery({
    queryKey: ["leases", "palette", text],
    queryFn: ({ signal }) =>
      get<{ items: { resource: string }[] }>("/v1/leases", {
        signal,
        query: { prefix: text, limit: 8 },
      }),
    enabled: text.length > 0,
    refetchInterval: false,
    retry: false,
  });
  const commands: Command[] = PAGES.map(({ name, path, icon }) => ({
    name,
    kind: "page",
    icon,
    run: () => void navigate({ to: path }),
  }));
  commands.push({
    name: dark ? "Light theme" : "Dark theme",
    kind: "action",
    icon: dark ? "sun" : "moon",
    run: () => choose(dark ? "light" : "dark"),
  });
  const lower = text.toLowerCase();
  const matching = commands.filter(({ name }) => name.toLowerCase().includes(lower));
  if (text === "") return matching;
  // Any text may be an id. One that is made by default leads to nothing else.
  const task: Command = {
    name: text,
    kind: "task",
    icon: "task",
    run: () => void navigate({ to: "/tasks/$id", params: { id: text } }),
  };
  const leases = (resources.data?.items ?? []).map(
    ({ resource }): Command => ({
      name: resource,
      kind: "resource",
      icon: "lease",
      run: () => void navigate({ to: "/leases/$resource", params: { resource } }),
    }),
  );
  return UUID.test(text) ? [...matching, task, ...leases] : [...matching, ...leases, task];
}
