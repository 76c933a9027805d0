// Something for the profiler to record: calls, allocations, exceptions, monitors, collections, threads.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;

class Node { public Node Next; public long[] Data; }

class Finalized { ~Finalized () { Program.Sum++; } }

class Program {
    public static long Sum;
    static readonly object gate = new object ();
    static List<Node> kept = new List<Node> ();

    static int Fib (int n) { return n < 2 ? n : Fib (n - 1) + Fib (n - 2); }

    static void Allocate (int count) {
        for (int i = 0; i < count; i++)
            kept.Add (new Node { Next = i > 0 ? kept [i - 1] : null, Data = new long [i % 40] });
        for (int i = 0; i < 10; i++)
            new Finalized ();
    }

    static void Throw (int depth) {
        if (depth == 0)
            throw new InvalidOperationException ("thrown on purpose");
        try { Throw (depth - 1); } finally { Sum++; }
    }

    static void Contend () {
        for (int i = 0; i < 20; i++)
            lock (gate) { Thread.Sleep (1); Sum += Fib (8); }
    }

    static void Main (string[] args) {
        Sum = Fib (12);
        Allocate (300);
        for (int i = 0; i < 5; i++) {
            try { Throw (4); } catch (InvalidOperationException) { Sum++; }
        }
        var threads = new Thread [2];
        for (int i = 0; i < threads.Length; i++) {
            threads [i] = new Thread (Contend) { Name = "Worker " + (i == 0 ? "α" : "β") };
            threads [i].Start ();
        }
        foreach (var thread in threads)
            thread.Join ();
        var handle = GCHandle.Alloc (kept [0], GCHandleType.Normal);
        GC.Collect ();
        GC.WaitForPendingFinalizers ();
        handle.Free ();
        var until = DateTime.UtcNow.AddMilliseconds (args.Length > 0 ? int.Parse (args [0]) : 0);
        while (DateTime.UtcNow < until)
            Sum += Fib (10);
        Console.WriteLine (Sum > 0);
    }
}
