// One dashboard with the answers to its questions, drawn as Grafana lays it out: 24 columns, rows of
// 30 pixels, gaps of 8. What to draw is put at window.preview before the page runs.

import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelChrome, PortalContainer } from '@grafana/ui';
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';

import { framesOf } from './frames';
import { KINDS } from './kinds';
import { arrange, configure, prepare } from './prepare';

const WIDTH = 1600;
const COLUMNS = 24;
const ROW = 30;
const GAP = 8;

const theme = createTheme({ colors: { mode: 'dark' } });
const { dashboard, answers, from, to, steps } = window.preview;
const range = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
const timeRange = { ...range, raw: range };
const problems = [];
window.drawn = { problems, left: 0 };

function placeOf({ x, y, w, h }) {
  const column = (WIDTH - GAP) / COLUMNS;
  return {
    left: x * column + GAP,
    top: y * (ROW + GAP),
    width: w * column - GAP,
    height: h * (ROW + GAP) - GAP,
  };
}

function Panel({ panel }) {
  const place = placeOf(panel.gridPos);
  const [frames, setFrames] = useState(null);
  useEffect(() => {
    window.drawn.left += 1;
    const raw = framesOf(panel, answers[panel.id], steps[panel.id]);
    const done = (arranged) => {
      setFrames(configure(panel, arranged, theme));
      window.drawn.left -= 1;
    };
    arrange(panel, raw, done, (error) => {
      problems.push(`${panel.title}: ${error}`);
      window.drawn.left -= 1;
    });
  }, [panel]);
  const Kind = KINDS[panel.type];
  return (
    <div style={{ position: 'absolute', ...place }} data-title={panel.title}>
      <PanelChrome
        title={panel.title}
        description={panel.description}
        width={place.width}
        height={place.height}
      >
        {(width, height) =>
          frames && (
            <Kind {...{ panel, frames, width, height, theme, timeRange, timeZone: 'utc' }} />
          )
        }
      </PanelChrome>
    </div>
  );
}

function Heading({ row }) {
  const style = { position: 'absolute', ...placeOf(row.gridPos), fontWeight: 500, fontSize: 16 };
  return <div style={{ ...style, paddingTop: 4 }}>⌄ {row.title}</div>;
}

function Bar() {
  const variables = dashboard.templating.list.filter((one) => one.type === 'query');
  const box = { border: `1px solid ${theme.colors.border.medium}`, padding: '4px 8px' };
  return (
    <div style={{ display: 'flex', gap: 12, padding: '10px 8px', alignItems: 'center' }}>
      <b style={{ fontSize: 18, marginRight: 16 }}>{dashboard.title}</b>
      {variables.map((one) => (
        <span key={one.name} style={box}>
          {one.label} <b>All</b>
        </span>
      ))}
      <span style={{ marginLeft: 'auto', color: theme.colors.text.secondary }}>
        {range.from.utc().format('YYYY-MM-DD HH:mm')} to {range.to.utc().format('HH:mm')} UTC ·
        drawn with Grafana's libraries, not by Grafana
      </span>
    </div>
  );
}

function Page() {
  const bottom = Math.max(...dashboard.panels.map((one) => one.gridPos.y + one.gridPos.h));
  return (
    <div style={{ width: WIDTH, background: theme.colors.background.canvas }}>
      <Bar />
      <div id="grid" style={{ position: 'relative', height: bottom * (ROW + GAP) }}>
        {dashboard.panels.map((one) =>
          one.type === 'row' ? (
            <Heading key={one.id} row={one} />
          ) : (
            <Panel key={one.id} panel={one} />
          )
        )}
      </div>
    </div>
  );
}

async function draw() {
  await initPluginTranslations('preview');
  prepare();
  document.body.style.background = theme.colors.background.canvas;
  createRoot(document.getElementById('root')).render(
    <MemoryRouter>
      <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <Page />
        <PortalContainer />
      </ThemeContext.Provider>
    </MemoryRouter>
  );
  window.drawn.started = true;
}

draw().catch((error) => problems.push(String(error?.stack ?? error)));
