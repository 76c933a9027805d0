// Prints every event of a recording as Mono.Profiler.Log reads it: a row of tab-separated texts for each event, in the
// order of the file: its name, its time, the thread that wrote it, then its properties in the order of their declaration.
using System;
using System.Collections;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Reflection;
using System.Text;
using Mono.Profiler.Log;

class Printer : LogEventVisitor {
    public TextWriter Out;

    static PropertyInfo[] Properties (Type type) {
        return type.GetProperties ().Where (p => p.Name != "Buffer" && p.Name != "Timestamp").ToArray ();
    }

    static string Told (object value) {
        if (value == null)
            return "null";
        if (value is string)
            return "\"" + ((string) value).Replace ("\\", "\\\\").Replace ("\n", "\\n").Replace ("\"", "\\\"") + "\"";
        if (value is Enum)
            return Convert.ToInt64 (value).ToString ();
        if (value is double)
            return ((double) value).ToString ("R", System.Globalization.CultureInfo.InvariantCulture);
        if (value is IEnumerable)
            return "[" + string.Join (",", ((IEnumerable) value).Cast<object> ().Select (Told)) + "]";
        var type = value.GetType ();
        if (type.IsPrimitive || type == typeof (Guid))
            return value.ToString ();
        return "{" + string.Join (",", Properties (type).Select (p => p.Name + "=" + Told (p.GetValue (value, null)))) + "}";
    }

    public override void VisitBefore (LogEvent e) {
        var told = Properties (e.GetType ()).Select (p => p.Name + "=" + Told (p.GetValue (e, null)));
        Out.WriteLine ("{0}\t{1}\t{2}\t{3}", e.GetType ().Name, e.Timestamp, e.Buffer.ThreadId, string.Join ("\t", told));
    }
}

class Program {
    static int Main (string[] args) {
        Stream stream = File.OpenRead (args [0]);
        var packed = stream.ReadByte () == 0x1f;
        stream.Position = 0;
        if (packed) {
            var memory = new MemoryStream ();
            new GZipStream (stream, CompressionMode.Decompress).CopyTo (memory);
            memory.Position = 0;
            stream = memory;
        }
        var sorted = args.Length > 1;
        var printer = new Printer { Out = new StreamWriter (Console.OpenStandardOutput (), new UTF8Encoding (false)) };
        new LogProcessor (new LogStream (stream), sorted ? null : printer, sorted ? printer : null).Process ();
        printer.Out.Flush ();
        return 0;
    }
}
