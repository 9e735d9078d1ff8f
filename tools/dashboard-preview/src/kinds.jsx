// How each kind of panel draws. Lines, numbers, bars and tables are components of @grafana/ui; what no
// package of Grafana's has (heatmap, states, dial) is in `ours`.

import {
  FieldType,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  VizOrientation,
} from '@grafana/data';
import { BarGauge, BigValue, Table, TimeSeries, VizRepeater } from '@grafana/ui';

import { Dial, Heatmap, States } from './ours';

function Nothing({ panel, height }) {
  const text = panel.fieldConfig.defaults.noValue ?? 'No data';
  return (
    <div className="nothing" style={{ textAlign: 'center', lineHeight: `${height}px` }}>
      {text}
    </div>
  );
}

function hasNumbers(frame) {
  return frame.length > 0 && frame.fields.some((field) => field.type === FieldType.number);
}

function Lines({ panel, frames, width, height, timeRange, timeZone }) {
  const drawable = frames.filter(hasNumbers);
  if (!drawable.length) {
    return <Nothing panel={panel} height={height} />;
  }
  const { legend } = panel.options;
  const size = { width, height };
  return <TimeSeries frames={drawable} structureRev={1} {...{ timeRange, timeZone, legend }} {...size} />;
}

function reduced({ panel, frames, theme, timeZone }) {
  return getFieldDisplayValues({
    data: frames,
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    timeZone,
  });
}

function Numbers(props) {
  const { panel, frames, width, height, theme } = props;
  const { colorMode, graphMode, justifyMode, textMode, wideLayout } = panel.options;
  const one = ({ value, count, ...size }) => (
    <BigValue
      value={value.display}
      text={panel.options.text}
      {...{ count, theme, colorMode, graphMode, justifyMode, textMode, wideLayout }}
      width={size.width}
      height={size.height}
    />
  );
  return (
    <VizRepeater
      getValues={() => reduced(props)}
      renderValue={one}
      source={frames}
      renderCounter={1}
      orientation={width > height ? VizOrientation.Vertical : VizOrientation.Horizontal}
      autoGrid
      {...{ width, height }}
    />
  );
}

function Bars(props) {
  const { panel, frames, width, height, theme } = props;
  const { displayMode, showUnfilled, valueMode, namePlacement } = panel.options;
  const { minVizWidth, minVizHeight, maxVizHeight } = panel.options;
  if (!frames.some(hasNumbers)) {
    return <Nothing panel={panel} height={height} />;
  }
  const one = ({ value, orientation, alignmentFactors, ...size }) => (
    <BarGauge
      value={value.display}
      field={value.field}
      display={value.view?.getFieldDisplayProcessor(value.colIndex)}
      valueDisplayMode={valueMode}
      {...{ theme, orientation, displayMode, showUnfilled, namePlacement, alignmentFactors }}
      width={size.width}
      height={size.height}
      text={{}}
    />
  );
  return (
    <VizRepeater
      getValues={() => reduced(props)}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={one}
      source={frames}
      renderCounter={1}
      orientation={VizOrientation.Horizontal}
      {...{ width, height, minVizWidth, minVizHeight, maxVizHeight }}
    />
  );
}

function Rows({ panel, frames, width, height, timeRange }) {
  const frame = frames.find((one) => one.length > 0);
  if (frame === undefined) {
    return <Nothing panel={panel} height={height} />;
  }
  return (
    <Table
      data={frame}
      columnMinWidth={80}
      footerOptions={{ show: false }}
      {...{ width, height, timeRange }}
    />
  );
}

export const KINDS = {
  timeseries: Lines,
  stat: Numbers,
  bargauge: Bars,
  table: Rows,
  gauge: (props) => <Dial value={reduced(props)[0]} {...props} />,
  heatmap: Heatmap,
  'state-timeline': (props) =>
    props.frames.length ? <States {...props} /> : <Nothing {...props} />,
};
