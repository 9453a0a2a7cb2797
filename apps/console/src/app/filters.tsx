/** What narrows a page, kept in its URL, so that it can be shared and survives a reload. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ComponentProps, useEffect, useRef, useState } from "react";
import { Input, Select } from "../ui/field.js";
import type { Search } from "./search.js";

/** Nothing is asked for while somebody still types. */
const TYPING_MS = 250;

/** The filters, and what changes some of them; undefined takes one away. */
export function useFilters(): [Search, (change: Search) => void] {
  const search: Search = useSearch({ strict: false });
  const navigate = useNavigate();
  const latest = useRef(search);
  useEffect(() => {
    latest.current = search;
  });
  const change = (next: Search) =>
    void navigate({
      to: ".",
      search: { ...latest.current, ...next },
      replace: true,
      resetScroll: false,
    });
  return [search, change];
}

interface FilterProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onFilter: (value: string | undefined) => void;
}

/** A filter by text: it takes effect when somebody pauses, or at Enter. */
export function FilterInput({
  label,
  value = "",
  onFilter,
  ...rest
}: FilterProps & Omit<ComponentProps<typeof Input>, "value">) {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [sent, setSent] = useState(value);
  if (known !== value) {
    setKnown(value);
    // The URL changed otherwise: by a link, or the way back. What came of typing stays as it is.
    if (value !== sent) setText(value);
  }
  useEffect(() => () => clearTimeout(timer.current), []);
  const commit = (next: string) => {
    clearTimeout(timer.current);
    setSent(next.trim());
    onFilter(next.trim() || undefined);
  };
  return (
    <Input
      aria-label={label}
      placeholder={label}
      type="search"
      spellCheck={false}
      value={text}
      onChange={({ target }) => {
        setText(target.value);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => commit(target.value), TYPING_MS);
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter") commit(event.currentTarget.value);
        if (event.key !== "Escape") return;
        // Browsers would empty it.
        event.preventDefault();
        event.currentTarget.blur();
      }}
      {...rest}
    />
  );
}

/** A filter by one of a few values. */
export function FilterSelect({
  label,
  value,
  onFilter,
  options,
  className,
}: FilterProps & { readonly options: readonly string[]; readonly className?: string }) {
  return (
    <Select
      aria-label={label}
      {...(className !== undefined && { className })}
      value={value ?? ""}
      onChange={({ target }) => onFilter(target.value || undefined)}
    >
      <option value="">{label}: any</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </Select>
  );
}
