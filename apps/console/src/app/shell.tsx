/** The frame of every page: navigation, the signed-in user, and the global keyboard shortcuts. */

import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import {
  Badge,
  Button,
  classNames,
  Dialog,
  Icon,
  IconButton,
  THEMES,
  useShortcuts,
  useTheme,
} from "leasehold-ui";
import { useState, useSyncExternalStore } from "react";
import { notifications } from "../data/live.js";
import { session } from "../data/session.js";
import { whoQuery } from "../data/who.js";
import { TIME_STYLES, useTimes } from "../ui/time.js";
import { PAGES } from "./pages.js";
import { Palette } from "./palette.js";
import { focusSearch } from "./search-field.js";
import { ShortcutsHelp } from "./shortcuts-help.js";
import { SignIn } from "./sign-in.js";

const NAVIGATION_LINK =
  "flex items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm text-muted hover:bg-sunken hover:text-ink aria-[current=page]:bg-accent-soft aria-[current=page]:font-medium aria-[current=page]:text-accent";

export function Shell() {
  const { refusal } = useSyncExternalStore(session.subscribe, session.snapshot);
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const navigate = useNavigate();
  useShortcuts({
    "mod+k": () => setPalette(true),
    "?": () => setHelp(true),
    "/": focusSearch,
    ...Object.fromEntries(
      PAGES.map(({ key, path }) => [`g ${key}`, () => void navigate({ to: path })]),
    ),
  });
  if (refusal !== null) return <SignIn refusal={refusal} />;
  return (
    <div className="md:grid md:min-h-dvh md:grid-cols-[13.5rem_minmax(0,1fr)]">
      <a
        href="#page"
        className="absolute -top-20 left-2 z-50 rounded bg-accent px-3 py-2 text-accent-ink focus:top-2"
      >
        Skip to content
      </a>
      <div className="sticky top-0 z-30 flex items-center gap-2 border-b bg-paper/95 px-3 py-2 backdrop-blur md:hidden">
        <IconButton label="Menu" aria-expanded={menu} onClick={() => setMenu(!menu)}>
          <Icon name="menu" />
        </IconButton>
        <Brand />
        <span className="ml-auto" />
        <IconButton label="Command palette" onClick={() => setPalette(true)}>
          <Icon name="search" />
        </IconButton>
      </div>
      <aside
        className={classNames(
          "border-r bg-paper md:sticky md:top-0 md:flex md:h-dvh md:flex-col",
          menu
            ? "fixed inset-x-0 top-[53px] bottom-0 z-30 flex flex-col overflow-y-auto"
            : "hidden",
        )}
      >
        <div className="hidden px-5 pt-5 pb-4 md:block">
          <Brand />
        </div>
        <nav aria-label="Pages" className="grid gap-0.5 px-3 max-md:pt-3">
          {PAGES.map(({ path, name, icon }) => (
            <Link
              key={path}
              to={path}
              activeOptions={{ exact: path === "/", includeSearch: false }}
              onClick={() => setMenu(false)}
              className={NAVIGATION_LINK}
            >
              <Icon name={icon} />
              {name}
            </Link>
          ))}
          <a href="simulator" className={NAVIGATION_LINK}>
            <Icon name="simulator" />
            Simulator
          </a>
        </nav>
        <div className="mt-auto grid gap-3 p-4 max-md:mt-8">
          <Button small className="justify-between!" onClick={() => setPalette(true)}>
            <span className="inline-flex items-center gap-1.5">
              <Icon name="search" size={14} /> Search
            </span>
            <kbd className="font-mono text-2xs text-muted">Ctrl K</kbd>
          </Button>
          <Preferences />
          <SignedIn />
          <Connection />
        </div>
      </aside>
      <main id="page" tabIndex={-1} className="min-w-0 px-4 py-5 outline-none sm:px-7 sm:py-7">
        <Outlet />
      </main>
      <Palette open={palette} onOpenChange={setPalette} />
      <Dialog open={help} onOpenChange={setHelp} title="Keyboard shortcuts">
        <ShortcutsHelp />
      </Dialog>
    </div>
  );
}

function Brand() {
  return (
    <span className="inline-flex items-center gap-2 font-semibold tracking-tight">
      <svg aria-hidden="true" width="22" height="22" viewBox="0 0 32 32" className="text-accent">
        <circle
          cx="16"
          cy="16"
          r="11"
          fill="none"
          stroke="currentColor"
          strokeOpacity=".25"
          strokeWidth="4"
        />
        <path
          d="M16 5a11 11 0 1 1-11 11"
          fill="none"
          stroke="currentColor"
          strokeWidth="4"
          strokeLinecap="round"
        />
      </svg>
      Leasehold
    </span>
  );
}

function Preferences() {
  const { theme, choose } = useTheme();
  const times = useTimes();
  const select =
    "h-7 min-w-0 rounded-md border bg-surface px-1.5 text-xs text-ink hover:border-line-strong";
  return (
    <div className="grid grid-cols-2 gap-2">
      <select
        aria-label="Theme"
        className={select}
        value={theme}
        onChange={({ target }) => choose(THEMES.find((one) => one === target.value) ?? "system")}
      >
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      <select
        aria-label="Time format"
        className={select}
        value={times.style}
        onChange={({ target }) =>
          times.choose(TIME_STYLES.find((one) => one === target.value) ?? "relative")
        }
      >
        <option value="relative">Relative</option>
        <option value="local">Local time</option>
        <option value="utc">UTC</option>
      </select>
    </div>
  );
}

function SignedIn() {
  const who = useQuery(whoQuery).data;
  if (!who) return null;
  return (
    <div className="grid gap-1 text-xs">
      <div className="flex items-center justify-between gap-2">
        <span className="truncate font-medium" title={who.actor}>
          {who.keyId === null ? "No API key" : who.actor}
        </span>
        <Badge tone={who.role === "viewer" ? "plain" : "accent"}>{who.role}</Badge>
      </div>
      <div className="flex items-center justify-between gap-2 text-muted">
        <span className="truncate">{who.namespace}</span>
        {who.keyId !== null && (
          <button
            type="button"
            className="underline underline-offset-2"
            onClick={() => (session.key() === null ? void session.endSession() : session.signOut())}
          >
            Sign out
          </button>
        )}
      </div>
    </div>
  );
}

const CONNECTION = {
  connecting: { text: "connecting", dot: "bg-warn" },
  live: { text: "live", dot: "bg-ok" },
  broken: { text: "disconnected, reconnecting", dot: "bg-danger" },
} as const;

function Connection() {
  const state = useSyncExternalStore(notifications.watch, () => notifications.state);
  const { text, dot } = CONNECTION[state];
  return (
    <div role="status" className="flex items-center gap-2 text-xs text-muted">
      <span aria-hidden="true" className={`size-2 rounded-full ${dot}`} />
      {text}
    </div>
  );
}
