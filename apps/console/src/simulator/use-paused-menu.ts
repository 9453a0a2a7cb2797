import { useRef } from "react";
import { usePlayer } from "./use-player.js";

/** Time stands still while a menu of acts is open, so that an act comes at the moment that was meant. */
export function usePausedMenu(): (open: boolean) => void {
  const player = usePlayer();
  const wasPlaying = useRef(false);
  return (open) => {
    if (open) {
      wasPlaying.current = player.view().playing;
      player.pause();
    } else if (wasPlaying.current) player.play();
  };
}
